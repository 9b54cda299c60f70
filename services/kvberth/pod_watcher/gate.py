"""Finds how the gate ended among the termination messages of a pod's init containers. Pure."""

from collections.abc import Iterable
from typing import Final

from kvberth.kvcache.gates import read_ending
from kvberth_schemas.events import GateResult

CONTAINER: Final = "kvberth-gate"
"""Its name, as the policy gives it; only its log says what it waits for."""
WAITS: Final = f"waits at its gate for its cache; the log of its init container {CONTAINER} says what is missing"


def waits_at_gate(running: Iterable[str]) -> str:
    """Return what a pod waits for by the names of its running init containers; empty where no gate is among them."""
    return WAITS if CONTAINER in running else ""


def gate_result(messages: Iterable[str]) -> GateResult | None:
    """Return what the gate said at its end; None where none of the messages is the gate's."""
    return next((found for message in messages if (found := read_ending(message)) is not None), None)
