"""The only part of placement that acts. One small interface, one implementation per backend."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kvberth.placement.memory import Held
from kvberth.placement.snapshot import LiveWorkload
from kvberth.placement.states import Wanted, WorkloadKey
from kvberth.placement.steps import AnyStep


@dataclass(frozen=True, slots=True)
class Standing:
    """What is asked for about one KVCache's cache on one node (None: nothing any more)."""

    namespace: str
    kvcache: str
    node: str
    wanted: Wanted | None
    held: Held | None = None
    """A removal that was not done, since something outside forbids it."""


class ApplyError(Exception):
    """A backend could not do what was asked for; the message says what and why."""


class Backend(Protocol):
    """Takes steps, and knows what is asked for at present."""

    async def adopt(self) -> Iterable[Standing]:
        """Take over what an earlier life asked for, and return it. Called until it succeeds, before any step.

        Raises:
            ApplyError, BusError: it could not be read in time.
        """
        ...

    async def take(self, namespace: str, step: AnyStep, plan: str) -> Standing:
        """Take one step and return what is asked for afterwards; taking it twice changes nothing more.

        Raises:
            ApplyError, BusError: it could not be taken; the next plan has it again.
        """
        ...

    def settle(self, namespace: str) -> None:
        """A plan of a namespace was made and its steps are taken: see that what exists fits it. Never blocks."""
        ...

    async def workload(self, namespace: str, key: WorkloadKey) -> LiveWorkload:
        """Read live how many engines a workload wants and how many are bound.

        Raises:
            ApplyError, BusError: nobody answered.
        """
        ...

    def blind(self) -> str | None:
        """Say what of its own objects the backend can't see at present; None where it sees all."""
        ...

    async def run(self) -> None:
        """Do what is left to be done beside the plans, until cancelled."""
        ...


__all__ = ["ApplyError", "Backend", "Standing"]
