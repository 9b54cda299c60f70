"""Reads the word that a gate left when it ended, and says what it means for the engine behind it. Pure.

The gate is told by its message, not by a name: JSON with ``"kvberth": "gate"``. Any other container's message is its
own matter.
"""

import json
from typing import Final

from pydantic import ValidationError

from kvberth_schemas.events import GateResult

MARK: Final = "kvberth"
"""The key whose value ``gate`` makes a termination message the gate's."""
OPEN: Final = "open"
_HOLDING: Final = frozenset({"closed", "stopped", "failed"})


def read_ending(message: str) -> GateResult | None:
    """Return what a gate said at its end; None where the message is no gate's."""
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


def ending_of(message: str, code: int | None) -> GateResult:
    """Return how a gate ended that left a message and exited with a code; None: nobody could learn the code.

    The code has the last word, as it has with the kubelet. Without one, a gate that left no message did not end by
    itself, so that it let nobody through.
    """
    told = read_ending(message)
    if code == 0:
        return told if told is not None and opens(told) else GateResult(outcome="unreadable", reason="NoMessage")
    if told is not None and (code is None or not opens(told)):
        return told
    what = "nobody watched" if code is None else f"exit code {code}"
    return GateResult(outcome="failed", reason="Ended", message=f"it ended without a word ({what})")


def opens(ending: GateResult) -> bool:
    """Whether an engine starts after a gate that ended so."""
    return ending.outcome not in _HOLDING


def started_without(ending: GateResult | None) -> bool:
    """Whether an engine was let through although its cache had not answered, or nobody knows that it had."""
    return ending is not None and opens(ending) and ending.outcome != OPEN
