"""The messages on the socket between a client and the worker: JSON, version first, 16 KiB at most. Pure.

One SEQPACKET packet is one message, but for `wake`, which is one byte. Both sides decode whatever comes: Malformed says
in one sentence what is wrong, and the conversation ends. Unknown fields are passed over, so that a later version may
add some.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from kvberth.store.errors import Malformed
from kvberth.store.layout.geometry import MAX_ARENAS

VERSION = 1
MAX_BYTES = 16 * 1024
MAX_REGIONS = 1024
MAX_GRANTS = 512
SOCKET_NAME = "kvberth.sock"
CLIENTS_NAME = "clients"
WAKE = b"w"


@dataclass(frozen=True, slots=True)
class Hello:
    """A client greets: it runs no copy, holds no grant, and has read or given up all receipts."""

    client: bytes
    epoch: bytes
    """Of the memory that it has mapped; zeros: of none."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The worker's memory, with a descriptor for each of `maps`. The client locks its file, maps, then registers."""

    epoch: bytes
    place: int
    maps: tuple[int, ...]
    """Bytes of each shared memory, in the order of the descriptors."""
    blobs: tuple[tuple[int, int, int], ...]
    """(memory, offset, bytes) of the index blob and of each arena."""


@dataclass(frozen=True, slots=True)
class Register:
    """What the client's blocks are."""

    fingerprint: bytes
    regions: tuple[int, ...]
    """Bytes of each region of this client's shard of a block; none: it copies nothing and only reads."""
    shard: int
    shards: int
    """Which of how many; 0 of 1 where a client has whole blocks."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The client is registered: its grants come."""

    layout: int
    slot_bytes: int
    session: int


@dataclass(frozen=True, slots=True)
class Done:
    """Copies into these grants have ended or never began: the slots go back."""

    grants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """There is no store yet: clients of an earlier one still map its memory (none: the cache is not there)."""

    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """The worker serves this client not: a reason for programs, and a sentence."""

    reason: str
    words: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody who is no client asks whether blocks can be stored, and is answered at once."""


@dataclass(frozen=True, slots=True)
class Told:
    """The answer: why there is no store, in a sentence, or empty: it serves."""

    words: str


@dataclass(frozen=True, slots=True)
class Bye:
    """The client leaves: nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Look at the rings."""


Message = Hello | Welcome | Register | Layout | Done | Wait | Refuse | Ask | Told | Bye | Wake

Field = Callable[[object], Any]


def layout_of(fingerprint: bytes, regions: tuple[int, ...]) -> int:
    """The number of a layout: of this engine's model and of these regions, and of no other."""
    digest = hashlib.blake2b(fingerprint + repr(regions).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def encode(message: Message) -> bytes:
    """One packet; raises ValueError where it would be too long."""
    if isinstance(message, Wake):
        return WAKE
    body = {field.name: _plain(getattr(message, field.name)) for field in fields(message)}
    packet = json.dumps({"v": VERSION, "type": _NAMES[type(message)], **body}, separators=(",", ":")).encode()
    if len(packet) > MAX_BYTES:
        raise ValueError(f"a message of {len(packet)} bytes is longer than {MAX_BYTES}")
    return packet


def decode(packet: bytes) -> Message:
    """Reads a packet; raises Malformed."""
    if packet == WAKE:
        return Wake()
    if len(packet) > MAX_BYTES:
        raise Malformed(f"a message of more than {MAX_BYTES} bytes came")
    try:
        said = json.loads(packet)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"a message came that is no JSON: {error!s:.80}") from None
    if not isinstance(said, dict):
        raise Malformed("a message came that is no object")
    if said.get("v") != VERSION or isinstance(said["v"], bool):
        raise Malformed(f"a message of version {said.get('v')!r:.40} came, this program speaks {VERSION} only")
    kind = said.get("type")
    known = _FIELDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise Malformed(f"a message of unknown type {kind!r:.40} came")
    made, checks = known
    try:
        return made(**{name: check(said[name]) for name, check in checks.items()})
    except (KeyError, ValueError, TypeError) as error:
        raise Malformed(f"the message {kind!r} is wrong: {error!s:.120}") from None


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _number(low: int, high: int) -> Field:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{value!r:.40} is no number from {low} to {high}")
        return value

    return check


def _bytes(count: int) -> Field:
    def check(value: object) -> bytes:
        # Python passes over spaces between bytes, which would make them fewer.
        found = bytes.fromhex(value) if isinstance(value, str) and len(value) == 2 * count else b""
        if len(found) != count:
            raise ValueError(f"{value!r:.80} is not {count} bytes in hex")
        return found

    return check


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 1024:
        raise ValueError(f"{value!r:.40} is no text of at most 1024 characters")
    return value


def _list(each: Field, most: int) -> Field:
    def check(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise ValueError(f"{value!r:.40} is no list of at most {most}")
        return tuple(each(item) for item in value)

    return check


def _blob(value: object) -> tuple[int, int, int]:
    where = _list(_number(0, 1 << 62), 3)(value)
    if len(where) != 3:
        raise ValueError(f"{value!r:.80} does not say where a blob lies")
    return where[0], where[1], where[2]


_SIZE = _number(1, 1 << 62)
_WORD = _number(0, 2**64 - 1)
_FIELDS: dict[str, tuple[Callable[..., Message], dict[str, Field]]] = {
    "hello": (Hello, {"client": _bytes(16), "epoch": _bytes(16)}),
    "welcome": (
        Welcome,
        {
            "epoch": _bytes(16),
            "place": _number(0, 63),
            "maps": _list(_SIZE, MAX_ARENAS),
            "blobs": _list(_blob, MAX_ARENAS + 1),
        },
    ),
    "register": (
        Register,
        {
            "fingerprint": _bytes(32),
            "regions": _list(_SIZE, MAX_REGIONS),
            "shard": _number(0, 1023),
            "shards": _number(1, 1024),
        },
    ),
    "layout": (Layout, {"layout": _WORD, "slot_bytes": _SIZE, "session": _WORD}),
    "done": (Done, {"grants": _list(_WORD, MAX_GRANTS)}),
    "wait": (Wait, {"clients": _list(_text, 64)}),
    "refuse": (Refuse, {"reason": _text, "words": _text}),
    "ask": (Ask, {}),
    "told": (Told, {"words": _text}),
    "bye": (Bye, {}),
}
_NAMES = {made: name for name, (made, _) in _FIELDS.items()}
