"""Keeps what benchmarks measured: one JSON line each, appended to a file that is not committed.

Knows nothing of what is measured. Run a benchmark from the repository root: `python -m benchmarks.plan`.
"""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FILE = Path("bench-results.jsonl")
"""In the working directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measured value; `target` is the most that it should be (or the least), in the same unit; None: none."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False
    context: Mapping[str, object] = field(default_factory=dict)
    """What the value depends on: sizes, shares, the machine."""

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


def machine() -> dict[str, object]:
    """Give when and on what something is measured, for a context."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def append(result: Result, file: Path = FILE) -> str:
    """Append a result to the file, and return its line. Raises OSError where the file can't be written."""
    said = {
        "name": result.name,
        "value": result.value,
        "unit": result.unit,
        "target": result.target,
        "holds": result.holds,
        "context": dict(result.context),
    }
    line = json.dumps(said)
    with file.open("a", encoding="utf-8") as results:
        results.write(f"{line}\n")
    return line
