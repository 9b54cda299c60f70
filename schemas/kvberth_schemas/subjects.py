"""Every NATS subject, stream name and writer of kvberth; nothing else spells one.

An event's subject is ``kvberth.evt.v1.<node>.<namespace>.<object>.<entity>``, a want's
``kvberth.want.v1.<node>.<namespace>.<object>.<what>``. A subject never changes while its thing lives, and has one
writer, which is a pair (service, node) and never an instance.
"""

from dataclasses import dataclass
from enum import StrEnum

from kvberth_schemas import names

EVENTS_STREAM = "KVBERTH_EVENTS"
WANTS_STREAM = "KVBERTH_WANTS"

_EVENT = "kvberth.evt.v1"
_WANT = "kvberth.want.v1"
_ALIVE = "kvberth.alive.v1"
_API = "kvberth.api.v1"

EVENTS_PATTERN = f"{_EVENT}.>"
WANTS_PATTERN = f"{_WANT}.>"
ALIVE_PATTERN = f"{_ALIVE}.>"


class Service(StrEnum):
    """Who speaks on the bus; `SCHEDULER` and `RUNNER` are the two parts of the bare backend, `CLI` only asks."""

    POD_WATCHER = "pod_watcher"
    SCHEDULER = "scheduler"
    RUNNER = "runner"
    NODE_AGENT = "node_agent"
    PLACEMENT = "placement"
    TRANSFER_WORKER = "transfer_worker"
    CLI = "cli"


class Entity(StrEnum):
    """What an event is about: the last token of its subject."""

    POD = "pod"
    NODE = "node"
    SPEC = "spec"
    STATUS = "status"
    PROCESS = "process"
    SOCKET = "socket"
    HEALTH = "health"
    CACHE = "cache"
    TRANSFER = "transfer"
    BLOCKS = "blocks"


class WantKind(StrEnum):
    """What a want asks for: the last token of its subject."""

    ENGINE = "engine"
    CACHE = "cache"
    DIR = "dir"


class Verb(StrEnum):
    """The requests of the bare backend's scheduler."""

    APPLY = "apply"
    DELETE = "delete"
    SCALE = "scale"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    DELETE_NODE = "delete-node"
    WORKLOAD = "workload"
    REGISTER = "register"


STATE_ENTITIES = frozenset(
    {Entity.POD, Entity.NODE, Entity.SPEC, Entity.STATUS, Entity.PROCESS, Entity.SOCKET, Entity.HEALTH}
)
"""Entities whose last message is the state; the others are logs, which no state reader opens."""

NODE_ENTITIES = frozenset({Entity.PROCESS, Entity.SOCKET, Entity.HEALTH, Entity.TRANSFER, Entity.BLOCKS})
"""Entities that name a node, since only an agent or runner says them about its own."""

WRITERS: dict[Entity, frozenset[Service]] = {
    Entity.POD: frozenset({Service.POD_WATCHER, Service.SCHEDULER}),
    Entity.NODE: frozenset({Service.POD_WATCHER, Service.SCHEDULER}),
    Entity.SPEC: frozenset({Service.POD_WATCHER, Service.SCHEDULER}),
    Entity.STATUS: frozenset({Service.PLACEMENT}),
    Entity.PROCESS: frozenset({Service.RUNNER}),
    Entity.SOCKET: frozenset({Service.NODE_AGENT}),
    Entity.HEALTH: frozenset({Service.NODE_AGENT}),
    Entity.CACHE: frozenset({Service.PLACEMENT}),
    Entity.TRANSFER: frozenset({Service.TRANSFER_WORKER}),
    Entity.BLOCKS: frozenset({Service.TRANSFER_WORKER}),
}
"""Which service writes which entity (one of them per deployment: Kubernetes or bare)."""

WANT_WRITERS: dict[WantKind, Service] = {
    WantKind.ENGINE: Service.SCHEDULER,
    WantKind.CACHE: Service.PLACEMENT,
    WantKind.DIR: Service.PLACEMENT,
}


@dataclass(frozen=True, slots=True, order=True)
class EventSubject:
    """The address of one thing's events. ``node`` and ``namespace`` are None where the subject has ``-``."""

    entity: Entity
    object: str
    namespace: str | None = None
    node: str | None = None

    def __str__(self) -> str:
        """Spell the subject."""
        return f"{_EVENT}.{_token(self.node)}.{_token(self.namespace)}.{names.encode(self.object)}.{self.entity}"

    @classmethod
    def parse(cls, text: str) -> "EventSubject":
        """Read a subject back.

        Raises:
            ValueError: it is no event subject, or its entity is unknown.
        """
        node, namespace, name, last = _parts(text, _EVENT)
        return cls(Entity(last), names.decode(name), _name(namespace), _name(node))


@dataclass(frozen=True, slots=True, order=True)
class WantSubject:
    """The address of one want."""

    what: WantKind
    node: str
    namespace: str
    object: str

    def __str__(self) -> str:
        """Spell the subject."""
        parts = (self.node, self.namespace, self.object)
        return f"{_WANT}.{'.'.join(names.encode(part) for part in parts)}.{self.what}"

    @classmethod
    def parse(cls, text: str) -> "WantSubject":
        """Read a subject back.

        Raises:
            ValueError: it is no want subject, or what it asks for is unknown.
        """
        node, namespace, name, last = _parts(text, _WANT)
        return cls(WantKind(last), names.decode(node), names.decode(namespace), names.decode(name))


@dataclass(frozen=True, slots=True)
class AliveSubject:
    """The address of one instance's sign of life, said each second on plain NATS."""

    service: Service
    instance: str
    node: str | None = None

    def __str__(self) -> str:
        """Spell the subject."""
        return f"{_ALIVE}.{_token(self.node)}.{self.service}.{names.encode(self.instance)}"

    @classmethod
    def parse(cls, text: str) -> "AliveSubject":
        """Read a subject back.

        Raises:
            ValueError: it is no alive subject, or its service is unknown.
        """
        tokens = text.split(".")
        if len(tokens) != 6 or ".".join(tokens[:3]) != _ALIVE:
            raise ValueError(f"'{text}' is no alive subject; it would be {_ALIVE}.<node>.<service>.<instance>")
        return cls(Service(tokens[4]), names.decode(tokens[5]), _name(tokens[3]))


def pod(namespace: str, uid: str) -> EventSubject:
    """Address a pod by its uid (a name comes back on another node with another uid)."""
    return EventSubject(Entity.POD, uid, namespace)


def node(name: str) -> EventSubject:
    """Address a node."""
    return EventSubject(Entity.NODE, name)


def spec(namespace: str, kvcache: str) -> EventSubject:
    """Address a KVCache's manifest."""
    return EventSubject(Entity.SPEC, kvcache, namespace)


def status(namespace: str, kvcache: str) -> EventSubject:
    """Address a KVCache's status."""
    return EventSubject(Entity.STATUS, kvcache, namespace)


def process(node: str, namespace: str, owner: str, role: str) -> EventSubject:
    """Address a process on a node; ``owner`` is a pod's uid (engines) or a KVCache's name (caches)."""
    return EventSubject(Entity.PROCESS, f"{owner}={role}", namespace, node)


def process_owner(subject: EventSubject) -> tuple[str, str]:
    """Give (owner, role) of a process subject.

    Raises:
        ValueError: the object is not ``<owner>=<role>``.
    """
    owner, separator, role = subject.object.rpartition("=")
    if not separator:
        raise ValueError(f"'{subject.object}' names no process; it would be <owner>=<role>")
    return owner, role


def socket(node: str, namespace: str, kvcache: str) -> EventSubject:
    """Address a cache's socket on a node."""
    return EventSubject(Entity.SOCKET, kvcache, namespace, node)


def health(node: str, namespace: str, kvcache: str) -> EventSubject:
    """Address a cache's health on a node."""
    return EventSubject(Entity.HEALTH, kvcache, namespace, node)


def cache(namespace: str, kvcache: str) -> EventSubject:
    """Address the log of where a KVCache's caches were placed, moved and removed."""
    return EventSubject(Entity.CACHE, kvcache, namespace)


def transfer(node: str, namespace: str, kvcache: str) -> EventSubject:
    """Address the log of what became of blocks that engines offered to a cache."""
    return EventSubject(Entity.TRANSFER, kvcache, namespace, node)


def blocks(node: str, namespace: str, kvcache: str) -> EventSubject:
    """Address the log of what a cache's block store holds."""
    return EventSubject(Entity.BLOCKS, kvcache, namespace, node)


def want(what: WantKind, node: str, namespace: str, name: str) -> WantSubject:
    """Address a want; ``name`` is a pod's uid for engines, a KVCache's name else."""
    return WantSubject(what, node, namespace, name)


def api(verb: Verb) -> str:
    """Spell the subject of a request."""
    return f"{_API}.{verb}"


def events_of(entity: Entity, node: str | None = None) -> str:
    """Spell the pattern of all events of an entity, or of one node's."""
    return f"{_EVENT}.{'*' if node is None else names.encode(node)}.*.*.{entity}"


def wants_of(what: WantKind, node: str | None = None) -> str:
    """Spell the pattern of all wants of a kind, or of one node's."""
    return f"{_WANT}.{'*' if node is None else names.encode(node)}.*.*.{what}"


def _token(name: str | None) -> str:
    return names.NONE if name is None else names.encode(name)


def _name(token: str) -> str | None:
    return None if token == names.NONE else names.decode(token)


def _parts(text: str, prefix: str) -> tuple[str, str, str, str]:
    tokens = text.split(".")
    if len(tokens) != 7 or ".".join(tokens[:3]) != prefix:
        raise ValueError(
            f"'{text}' is no subject below {prefix}; it would be {prefix}.<node>.<namespace>.<object>.<last>"
        )
    return tokens[3], tokens[4], tokens[5], tokens[6]
