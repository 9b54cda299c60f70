"""What a backend is made of and made for: the edge of one term to the bus, and the means to act and to tell."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from kvberth.bus import Bus, Writer
from kvberth.placement.apply import Backend
from kvberth.placement.observe import Index
from kvberth.placement.planner import Speaker
from kvberth_schemas.subjects import Service


@dataclass(frozen=True, slots=True)
class Edge:
    """One term's connection to everything else."""

    bus: Bus
    wants: Writer
    term: int
    index: Index
    wake: Callable[[], None]
    speaker: Speaker
    """Says statuses on the bus."""


@dataclass(frozen=True, slots=True)
class Means:
    """How what is decided is done, and how statuses are said."""

    backend: Backend
    speaker: Speaker
    source: Service
    """Who tells of pods, nodes and KVCaches here."""


Make = Callable[[Edge], AbstractAsyncContextManager[Means]]
