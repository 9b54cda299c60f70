"""Reads how the gate ended from the termination messages of a pod's init containers. Pure.

The gate is told by its message, not by a name: JSON with ``"kvberth": "gate"``. Any other container's message is its
own matter.
"""

import json
from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError

from kvberth_schemas.events import GateResult

MARK: Final = "kvberth"
"""The key whose value ``gate`` makes a termination message the gate's."""


def gate_result(messages: Iterable[str]) -> GateResult | None:
    """Return what the gate said at its end; None where none of the messages is the gate's."""
    return next((found for message in messages if (found := _read(message)) is not None), None)


def _read(message: str) -> GateResult | None:
    if f'"{MARK}"' not in message:
        return None
    try:
        told = json.loads(message)
        if not isinstance(told, dict) or told.get(MARK) != "gate":
            return None
        return GateResult.model_validate(told)
    except ValidationError:
        return GateResult(outcome="unreadable", reason=f"its termination message is {message[:200]!r}")
    except (ValueError, RecursionError):
        return None
