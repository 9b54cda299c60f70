"""Whether a move went well: one new cache, no other began anew, no engine was started again or left without."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tests.ha.world import MOVER, RESTER, Engine, Lives, World


@dataclass(frozen=True)
class Moved:
    """A move that is over."""

    seconds: float
    """From the binding of the engine's new pod until the witness beside it was answered."""
    wrong: list[str]


@dataclass(frozen=True)
class Looked:
    """What was there before a move."""

    lives: Lives

    @classmethod
    async def at(cls, world: World) -> Self:
        """Look now."""
        return cls(await world.lives())

    async def moved(self, world: World, bound: float) -> Moved:
        """Wait for the end of the move, and judge it."""
        mover = await world.settled(MOVER, world.source)
        rester = await world.settled(RESTER, world.nodes[-1])
        after = await world.lives()
        wrong = [*_lost(self.lives, after, world.source), *_faults(mover, MOVER), *_faults(rester, RESTER)]
        return Moved((first_new(self.lives, after, world.source) or bound) - bound, wrong)


def first_new(before: Lives, after: Lives, node: str) -> float | None:
    """Give when the witness of a node was first answered by a cache of the mover that was not there before."""
    known = len(before.seen[node, MOVER])
    return next(iter(after.seen[node, MOVER][known:]), None)


def _lost(before: Lives, after: Lives, target: str) -> Iterator[str]:
    """Say which caches began anew that should not have: only the mover's at its target may, once."""
    for (node, model), lives in after.seen.items():
        new = len(lives) - len(before.seen[node, model])
        meant = 1 if (node, model) == (target, MOVER) else 0
        if new != meant:
            yield f"the cache of {model} on {node} had {new} new lives, not {meant}"


def _faults(engine: Engine, model: str) -> Iterator[str]:
    if engine.restarts:
        yield f"{model} restarted {engine.restarts} times"
    if engine.gate != "open":
        yield f"the gate of {model} ended {engine.gate}"
