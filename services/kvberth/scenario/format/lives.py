"""What may be expected of who lives, since when, and in which order. Pure."""

from typing import Annotated

from pydantic import BeforeValidator

from kvberth.scenario.format.base import HowMany, Name, Part
from kvberth.scenario.format.targets import CacheTarget, EngineTarget, Targets


class StartOrder(Part):
    """A cache on the engine's node answered before each engine's container started (exactly: at its process' start)."""

    workload: Name
    kvcache: Name
    namespace: Name = "default"
    since: Name | None = None
    """Only engines that were started after that mark."""

    def __str__(self) -> str:
        """Say it."""
        return f"each engine of {self.workload} started after a cache of {self.kvcache} answered on its node"


class Lives(Part):
    """How many different lives (processes, for caches also incarnations) a cache or an engine has had."""

    cache: CacheTarget | None = None
    engine: EngineTarget | None = None
    count: HowMany
    since: Name | None = None
    """Only lives that began after that mark."""

    def __str__(self) -> str:
        """Say it."""
        window = f"since '{self.since}'" if self.since else "ever"
        return f"{self.count} lives of {self.cache or self.engine or 'all caches'} {window}"


class Identity(Part):
    """What a process is, against a mark: pid; for caches also incarnation and the instance id that it answers."""

    since: Name
    """The mark to compare with."""
    of: Targets | None = None
    """The processes; default: every engine and cache that lived at the mark."""
    services: bool = False
    """Compare the services and NATS as well."""

    def whom(self) -> str:
        """Say whom it is about."""
        if self.of:
            return " and ".join(map(str, self.of))
        return "every engine, cache and service" if self.services else "every engine and cache"


class Reaches(Part):
    """The socket that each engine of a workload was given leads to the daemon of that KVCache on its own node."""

    workload: Name
    kvcache: Name
    namespace: Name = "default"

    def __str__(self) -> str:
        """Say it."""
        return f"each engine of {self.workload} reaches the daemon of {self.kvcache} on its node"


def _all_lives(value: object) -> object:
    """Let ``same: before`` stand for ``same: {since: before}``."""
    return {"since": value} if isinstance(value, str) else value


AnyIdentity = Annotated[Identity, BeforeValidator(_all_lives, json_schema_input_type=Name | Identity)]
