"""The only part of placement that acts. One small interface, one implementation per backend."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kvberth.placement.snapshot import Wanted
from kvberth.placement.steps import AnyStep


@dataclass(frozen=True, slots=True)
class Standing:
    """What is asked for about one KVCache's cache on one node (None: nothing any more)."""

    namespace: str
    kvcache: str
    node: str
    wanted: Wanted | None


class Backend(Protocol):
    """Takes steps, and knows what is asked for at present."""

    async def adopt(self) -> Iterable[Standing]:
        """Take over what an earlier life asked for, and return it. Called until it succeeds, before any step.

        Raises:
            BusError: it could not be read in time.
        """
        ...

    async def take(self, namespace: str, step: AnyStep, plan: str) -> Standing:
        """Take one step and return what is asked for afterwards; taking it twice changes nothing more.

        Raises:
            BusError: it could not be taken; the next plan has it again.
        """
        ...


__all__ = ["Backend", "Standing"]
