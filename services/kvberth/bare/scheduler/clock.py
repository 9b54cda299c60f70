"""How long each node has been silent, by a clock that stops while the scheduler can't hear itself. Pure.

A dead NATS or a suspended laptop silences every node at once; that is not the loss of every node. So a node's silence
grows only while the scheduler's own sign of life comes back to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OWN_FRESH_S: Final = 2.0
"""Older than this, the scheduler's own last sign of life means that it hears nobody."""
LONGEST_STEP_S: Final = 2.0
"""A longer step means that the scheduler itself did not run."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Ages in seconds of the last signs of life: the scheduler's own and those of each node's runner; None: never."""

    own_s: float | None
    nodes_s: Mapping[str, float | None]


def listen(silence: Mapping[str, float], elapsed_s: float, heard: Heard, lost_after_s: float) -> dict[str, float]:
    """Return the seconds of silence of every node in `heard`, after `elapsed_s` more seconds.

    While the scheduler can't hear itself, a node that is lost stays lost, and the others begin anew: what they were
    counted while the bus was dying is no evidence, and their runners need a moment to come back.
    """
    if heard.own_s is None or heard.own_s > OWN_FRESH_S or elapsed_s > LONGEST_STEP_S:
        before = {node: silence.get(node, 0.0) for node in heard.nodes_s}
        return {node: seconds if seconds > lost_after_s else 0.0 for node, seconds in before.items()}
    return {
        node: min(silence.get(node, 0.0) + elapsed_s, float("inf") if age is None else age)
        for node, age in heard.nodes_s.items()
    }
