"""Which class reads which CloudEvents type, and on which subject it may be said.

The only place where an unknown version is told apart from garbage.
"""

from pydantic import ValidationError

from kvberth_schemas import events, requests, wants
from kvberth_schemas.model import Event, Message, Want
from kvberth_schemas.subjects import NODE_ENTITIES, Entity, Verb, WantKind

ENTITIES: dict[type[Event], Entity] = {
    events.PodScheduledV1: Entity.POD,
    events.PodReadyV1: Entity.POD,
    events.PodWaitingV1: Entity.POD,
    events.PodGoneV1: Entity.POD,
    events.NodeChangedV1: Entity.NODE,
    events.NodeGoneV1: Entity.NODE,
    events.KVCacheSpecV1: Entity.SPEC,
    events.KVCacheGoneV1: Entity.SPEC,
    events.KVCacheStatusV1: Entity.STATUS,
    events.KVCacheStatusGoneV1: Entity.STATUS,
    events.ProcessStartedV1: Entity.PROCESS,
    events.ProcessEndedV1: Entity.PROCESS,
    events.ProcessGoneV1: Entity.PROCESS,
    events.SocketReadyV1: Entity.SOCKET,
    events.SocketLostV1: Entity.SOCKET,
    events.SocketGoneV1: Entity.SOCKET,
    events.CacheHealthV1: Entity.HEALTH,
    events.CacheHealthGoneV1: Entity.HEALTH,
    events.CachePlacedV1: Entity.CACHE,
    events.CacheMovedV1: Entity.CACHE,
    events.CacheRemovedV1: Entity.CACHE,
    events.TransferCompletedV1: Entity.TRANSFER,
    events.CacheBlocksV1: Entity.BLOCKS,
}
"""What each event is about: which subject may carry it."""

WANT_KINDS: dict[type[Want], WantKind] = {
    wants.EngineWantV1: WantKind.ENGINE,
    wants.CacheWantV1: WantKind.CACHE,
    wants.DirWantV1: WantKind.DIR,
}
"""What each want asks for: which subject may carry it."""

REQUESTS: dict[Verb, tuple[type[Message], type[Message]]] = {
    Verb.APPLY: (requests.ApplyRequest, requests.Reply),
    Verb.DELETE: (requests.ObjectRequest, requests.Reply),
    Verb.SCALE: (requests.ScaleRequest, requests.Reply),
    Verb.CORDON: (requests.NodeRequest, requests.Reply),
    Verb.UNCORDON: (requests.NodeRequest, requests.Reply),
    Verb.DRAIN: (requests.NodeRequest, requests.Reply),
    Verb.DELETE_NODE: (requests.NodeRequest, requests.Reply),
    Verb.WORKLOAD: (requests.WorkloadRequest, requests.WorkloadReply),
    Verb.REGISTER: (requests.RegisterRequest, requests.Reply),
}
"""What each verb of the bare backend's scheduler takes and answers."""

_OBJECT_FIELDS: dict[Entity, tuple[str, ...]] = {
    Entity.POD: ("uid",),
    Entity.NODE: ("name",),
    Entity.SPEC: ("name",),
    Entity.STATUS: ("name",),
    Entity.PROCESS: ("owner", "role"),
    Entity.SOCKET: ("cache",),
    Entity.HEALTH: ("cache",),
    Entity.CACHE: ("cache",),
    Entity.TRANSFER: ("cache",),
    Entity.BLOCKS: ("cache",),
}
"""Which fields of an event make the object of its subject, joined by ``=``."""

_WANT_OBJECT_FIELDS: dict[WantKind, tuple[str, ...]] = {
    WantKind.ENGINE: ("pod_uid",),
    WantKind.CACHE: ("kvcache",),
    WantKind.DIR: ("kvcache",),
}
"""The same of a want. A table of its own: some kinds of wants and of events have the same word."""

EVENTS: dict[str, type[Event]] = {cls.ce_type: cls for cls in ENTITIES}
WANTS: dict[str, type[Want]] = {cls.ce_type: cls for cls in WANT_KINDS}


class DecodeError(ValueError):
    """A message's body is not what its type says."""


class UnknownTypeError(DecodeError):
    """A message's type, or its major version, is not known here."""


def decode(ce_type: str, body: bytes) -> Event | Want:
    """Read a body by its type.

    Raises:
        UnknownTypeError: nobody here knows the type.
        DecodeError: the body is no JSON of that type; the message names the first field that is wrong.
    """
    cls: type[Event | Want] | None = EVENTS.get(ce_type) or WANTS.get(ce_type)
    if cls is None:
        raise UnknownTypeError(f"the type '{ce_type}' is not known; known are the types of kvberth_schemas.registry")
    try:
        return cls.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise DecodeError(f"{ce_type}: {field}: {first['msg']}") from error


def address(message: Event | Want) -> dict[str, str]:
    """Give what a message's body says about its own subject: `object`, and `namespace` and `node` where it has them."""
    if isinstance(message, Want):
        fields, parts = _WANT_OBJECT_FIELDS[WANT_KINDS[type(message)]], ["namespace"]
    else:
        entity = ENTITIES[type(message)]
        fields, parts = _OBJECT_FIELDS[entity], [] if entity is Entity.NODE else ["namespace"]
        parts += ["node"] if entity in NODE_ENTITIES else []
    named = {part: str(getattr(message, part)) for part in parts}
    return {"object": "=".join(str(getattr(message, field)) for field in fields), **named}


def encode(message: Message) -> bytes:
    """Write a message's body."""
    return message.model_dump_json().encode()
