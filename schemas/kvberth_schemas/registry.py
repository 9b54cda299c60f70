"""Which class reads which CloudEvents type; the only place where an unknown version is told apart from garbage."""

from pydantic import ValidationError

from kvberth_schemas import events, wants
from kvberth_schemas.model import Event, Message, Want

_EVENT_CLASSES: tuple[type[Event], ...] = (
    events.PodScheduledV1,
    events.PodReadyV1,
    events.PodWaitingV1,
    events.PodGoneV1,
    events.NodeChangedV1,
    events.NodeGoneV1,
    events.KVCacheSpecV1,
    events.KVCacheGoneV1,
    events.KVCacheStatusV1,
    events.KVCacheStatusGoneV1,
    events.ProcessStartedV1,
    events.ProcessEndedV1,
    events.ProcessGoneV1,
    events.SocketReadyV1,
    events.SocketLostV1,
    events.SocketGoneV1,
    events.CacheHealthV1,
    events.CacheHealthGoneV1,
    events.CachePlacedV1,
    events.CacheMovedV1,
    events.CacheRemovedV1,
    events.TransferCompletedV1,
)
_WANT_CLASSES: tuple[type[Want], ...] = (wants.EngineWantV1, wants.CacheWantV1, wants.DirWantV1)

EVENTS: dict[str, type[Event]] = {cls.ce_type: cls for cls in _EVENT_CLASSES}
WANTS: dict[str, type[Want]] = {cls.ce_type: cls for cls in _WANT_CLASSES}


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


def encode(message: Message) -> bytes:
    """Write a message's body."""
    return message.model_dump_json().encode()
