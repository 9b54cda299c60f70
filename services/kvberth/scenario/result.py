"""What became of scenarios, as data and as the one JSON object that `--json` prints. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that was not as it should be."""

    step: str
    expected: str
    seen: str


@dataclass(slots=True)
class Outcome:
    """One scenario's."""

    file: str
    name: str
    skipped: str | None = None
    """Why the whole scenario was not run."""
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    measures: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Steps and expectations that were skipped, with what is missing."""
    failed_beside_others: bool = False
    """Whether this is what became of it alone, after it had failed beside others."""

    @property
    def passed(self) -> bool:
        """Whether it was run and nothing was wrong."""
        return self.skipped is None and not self.failures


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Give the JSON object."""
    return {"scenarios": [_object(outcome) for outcome in outcomes]}


def failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether any scenario failed; one that was skipped did not."""
    return any(outcome.failures for outcome in outcomes)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Count them in one line."""
    passed = sum(outcome.passed for outcome in outcomes)
    bad = sum(bool(outcome.failures) for outcome in outcomes)
    skipped = sum(outcome.skipped is not None for outcome in outcomes)
    parts = sum(len(outcome.left_out) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    alone = [outcome.name for outcome in outcomes if outcome.failed_beside_others and outcome.passed]
    return (
        f"{passed} passed, {bad} failed, {skipped} skipped; "
        f"{parts} steps and expectations skipped within those that ran; {seconds:.1f} s"
        + (f"; failed beside others and passed alone: {', '.join(alone)}" if alone else "")
    )


def _object(outcome: Outcome) -> dict[str, Any]:
    return {
        "file": outcome.file,
        "name": outcome.name,
        "passed": outcome.passed,
        "skipped": outcome.skipped,
        "seconds": round(outcome.seconds, 3),
        "failures": [{"step": f.step, "expected": f.expected, "seen": f.seen} for f in outcome.failures],
        "measures": {
            **{name: round(value, 4) for name, value in outcome.measures.items()},
            "skipped_parts": len(outcome.left_out),
            **({"failed_beside_others": 1} if outcome.failed_beside_others else {}),
        },
    }
