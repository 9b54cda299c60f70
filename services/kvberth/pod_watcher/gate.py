"""Finds how the gate ended among the termination messages of a pod's init containers. Pure."""

from collections.abc import Iterable

from kvberth.kvcache.gates import read_ending
from kvberth_schemas.events import GateResult


def gate_result(messages: Iterable[str]) -> GateResult | None:
    """Return what the gate said at its end; None where none of the messages is the gate's."""
    return next((found for message in messages if (found := read_ending(message)) is not None), None)
