"""Which process is meant: of a cache, its transfer worker, an engine, a service, NATS or `up`. Pure."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from kvberth.scenario.format.base import Name, OneOf, Part, one_or_more

ServiceName = Literal["placement", "scheduler", "runner", "node_agent"]


class CacheTarget(Part):
    """The vineyardd of a KVCache on a node."""

    kvcache: Name
    node: Name | None = None
    """May be left out where there is only one."""
    namespace: Name = "default"

    def __str__(self) -> str:
        """Name it."""
        return f"the cache of {self.kvcache}" + (f" on {self.node}" if self.node else "")


class WorkerTarget(Part):
    """The transfer worker beside a KVCache's cache on a node."""

    kvcache: Name
    node: Name | None = None
    """May be left out where there is only one."""
    namespace: Name = "default"

    def __str__(self) -> str:
        """Name it."""
        return f"the transfer worker of {self.kvcache}" + (f" on {self.node}" if self.node else "")


class EngineTarget(Part):
    """An engine of a workload (Deployment or StatefulSet)."""

    workload: Name
    node: Name | None = None
    """May be left out where there is only one."""
    pod: Name | None = None
    """The pod's name, where it is known (StatefulSets)."""
    deleting: bool | None = None
    """Only one that is being deleted (true), or that is not (false)."""
    namespace: Name = "default"

    def __str__(self) -> str:
        """Name it."""
        which = {True: "ending engine", False: "staying engine", None: "engine"}[self.deleting]
        pod = f" ({self.pod})" if self.pod else ""
        return f"the {which} of {self.workload}{pod}" + (f" on {self.node}" if self.node else "")


class ServiceTarget(Part):
    """A service of kvberth; runner and node_agent are those of a node."""

    name: ServiceName
    node: Name | None = None

    def __str__(self) -> str:
        """Name it."""
        return f"the {self.name}" + (f" of {self.node}" if self.node else "")


def _plain_service(value: object) -> object:
    """Let ``service: placement`` stand for ``service: {name: placement}``."""
    return {"name": value} if isinstance(value, str) else value


class Target(OneOf):
    """One process."""

    cache: CacheTarget | None = None
    engine: EngineTarget | None = None
    worker: WorkerTarget | None = None
    service: (
        Annotated[ServiceTarget, BeforeValidator(_plain_service, json_schema_input_type=ServiceName | ServiceTarget)]
        | None
    ) = None
    """``placement``, ``scheduler``, ``{name: runner, node: l20-a}`` or ``{name: node_agent, node: l20-a}``."""
    nats: Literal[True] | None = None
    """The NATS server, written ``nats: true`` or just ``nats``."""
    up: Literal[True] | None = None
    """The `kvberth up` that keeps the services running, written ``up: true`` or just ``up``."""

    def __str__(self) -> str:
        """Name it."""
        return {"nats": "NATS", "up": "kvberth up"}.get(self.kind) or str(self.value)


def _plain_target(value: object) -> object:
    """Let ``kill: nats`` stand for ``kill: {nats: true}``, ``kill: placement`` for ``kill: {service: placement}``."""
    if not isinstance(value, str):
        return value
    return {value: True} if value in {"nats", "up"} else {"service": value}


_Word = Literal["nats", "up", "placement", "scheduler"]
AnyTarget = Annotated[
    Target,
    BeforeValidator(_plain_target, json_schema_input_type=_Word | Target),
    Field(examples=["nats", "placement", {"service": {"name": "runner", "node": "l20-a"}}]),
]
"""A target, or just the word ``nats``, ``up``, ``placement`` or ``scheduler``."""

Targets = Annotated[list[AnyTarget], BeforeValidator(one_or_more, json_schema_input_type=AnyTarget | list[AnyTarget])]
"""One target, or a list of them."""
