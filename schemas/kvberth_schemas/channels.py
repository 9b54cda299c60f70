"""Every subject of the bus as one table: its address, what may be said on it, who says it, and who listens.

What is published for users (AsyncAPI document, tables of ``docs/events.md``) is made from it, and it from `subjects`
and `registry`. Describes only; spells no subject that is published on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import getdoc

from kvberth_schemas import subjects
from kvberth_schemas.alive import Alive
from kvberth_schemas.model import Message
from kvberth_schemas.registry import ENTITIES, REQUESTS, WANT_KINDS
from kvberth_schemas.subjects import Entity, Service, Verb, WantKind

ALIVE = "kvberth.alive.v1"

PARAMETERS = {
    "node": "Name of a node.",
    "namespace": "Namespace of the object.",
    "kvcache": "Name of a KVCache.",
    "pod_uid": "The pod's uid: a name comes back on another node, a uid never does.",
    "process": "`<pod uid>=engine`, `<KVCache>=cache` or `<KVCache>=transfer`, encoded as one token (`=` is `=3D`).",
    "service": "Who speaks: " + ", ".join(f"`{service}`" for service in Service) + ".",
    "instance": "One life of the service; a name for people only.",
}
"""What stands in the places of an address. Each is one token, encoded by `names.encode`."""

_OBJECTS = {Entity.POD: "pod_uid", Entity.NODE: "node", Entity.PROCESS: "process"}
_ENTITIES = {
    Entity.POD: "A pod: an engine, and on Kubernetes also a cache.",
    Entity.NODE: "A node.",
    Entity.SPEC: "A KVCache as its user applied it.",
    Entity.STATUS: "What placement says about a KVCache.",
    Entity.PROCESS: "A process of the bare backend: an engine or a cache.",
    Entity.SOCKET: "The socket of a cache on a node, and whether a register request on it is answered.",
    Entity.HEALTH: "The proven health of a cache on a node.",
    Entity.CACHE: "What placement did with the caches of a KVCache.",
    Entity.TRANSFER: "What became of the blocks that engines offered to a cache.",
    Entity.BLOCKS: "What the block store of a cache holds, and why it does not serve.",
}
_READERS = {
    WantKind.ENGINE: Service.RUNNER,
    WantKind.CACHE: Service.RUNNER,
    WantKind.DIR: Service.NODE_AGENT,
}
_ASKERS = {Verb.WORKLOAD: Service.PLACEMENT, Verb.REGISTER: Service.RUNNER}
_VERBS = {
    Verb.APPLY: "Apply the documents of a manifest.",
    Verb.DELETE: "Delete an object.",
    Verb.SCALE: "Set the number of replicas of a workload.",
    Verb.CORDON: "Let no new engine come to a node.",
    Verb.UNCORDON: "Let engines come to a node again.",
    Verb.DRAIN: "Cordon a node and delete its engines' pods, so that they move.",
    Verb.DELETE_NODE: "Delete a node.",
    Verb.WORKLOAD: "Say what a workload wants and has at this moment.",
    Verb.REGISTER: "Announce a node.",
}


@dataclass(frozen=True, slots=True)
class Said:
    """A message under its published name."""

    name: str
    """The CloudEvents type, or the name of the schema file for what has none."""
    summary: str


@dataclass(frozen=True, slots=True)
class Channel:
    """One family of subjects."""

    name: str
    address: str
    """With the names of `PARAMETERS` in braces."""
    summary: str
    kind: str
    """``state``, ``log``, ``want``, ``alive`` or ``request``."""
    stream: str | None
    """The JetStream stream that stores it; None: plain NATS."""
    writers: tuple[Service, ...]
    readers: tuple[Service, ...]
    """Empty: everybody."""
    messages: tuple[Said, ...]
    reply: Said | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the address's places, in order."""
        return tuple(part[1:-1] for part in self.address.split(".") if part.startswith("{"))


def channels() -> tuple[Channel, ...]:
    """Give every subject of the bus."""
    return (*_events(), *_wants(), _alive(), *_requests())


def _events() -> Iterator[Channel]:
    for entity, summary in _ENTITIES.items():
        node = "{node}" if entity in subjects.NODE_ENTITIES else "-"
        namespace = "-" if entity is Entity.NODE else "{namespace}"
        places = (node, namespace, "{" + _OBJECTS.get(entity, "kvcache") + "}")
        yield Channel(
            name=str(entity),
            address=_fill(subjects.events_of(entity), places),
            summary=summary,
            kind="state" if entity in subjects.STATE_ENTITIES else "log",
            stream=subjects.EVENTS_STREAM,
            writers=tuple(sorted(subjects.WRITERS[entity])),
            readers=(),
            messages=tuple(Said(cls.ce_type, _summary(cls)) for cls, about in ENTITIES.items() if about is entity),
        )


def _wants() -> Iterator[Channel]:
    for cls, kind in WANT_KINDS.items():
        places = ("{node}", "{namespace}", "{pod_uid}" if kind is WantKind.ENGINE else "{kvcache}")
        yield Channel(
            name=f"want-{kind}",
            address=_fill(subjects.wants_of(kind), places),
            summary=_summary(cls),
            kind="want",
            stream=subjects.WANTS_STREAM,
            writers=(subjects.WANT_WRITERS[kind],),
            readers=(_READERS[kind],),
            messages=(Said(cls.ce_type, _summary(cls)),),
        )


def _alive() -> Channel:
    return Channel(
        name="alive",
        address=subjects.ALIVE_PATTERN.removesuffix(">") + "{node}.{service}.{instance}",
        summary="That a service lives, each second; for services without a node, the node's token is `-`.",
        kind="alive",
        stream=None,
        writers=tuple(service for service in Service if service is not Service.CLI),
        readers=(),
        messages=(Said(ALIVE, _summary(Alive)),),
    )


def _requests() -> Iterator[Channel]:
    for verb, (request, reply) in REQUESTS.items():
        yield Channel(
            name=f"api-{verb}",
            address=subjects.api(verb),
            summary=_VERBS[verb],
            kind="request",
            stream=None,
            writers=(_ASKERS.get(verb, Service.CLI),),
            readers=(Service.SCHEDULER,),
            messages=(Said(f"kvberth.api.{verb}.request.v1", _summary(request)),),
            reply=Said(f"kvberth.api.{verb}.reply.v1", _summary(reply)),
        )


def _fill(pattern: str, places: tuple[str, ...]) -> str:
    remaining = iter(places)
    return ".".join(next(remaining) if part == "*" else part for part in pattern.split("."))


def _summary(cls: type[Message]) -> str:
    return (getdoc(cls) or "").partition("\n")[0].replace("``", "`")
