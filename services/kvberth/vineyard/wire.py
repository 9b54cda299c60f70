"""The Vineyard IPC protocol as values: requests to bytes, bytes to checked replies. Pure: no socket, no clock.

A frame is an 8-byte little-endian length and that many bytes of JSON. A reply with a non-zero `code` is the daemon's
refusal. A reply that announces a file descriptor is followed by one byte that carries it.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

HEADER_BYTES = 8
MAX_FRAME_BYTES = 256 * 1024
"""The largest reply we take: the replies to what we ask are far below 1 KiB, error texts a little longer."""

PROTOCOL_VERSION = "0.24.2"
CODE_OBJECT_MISSING = 12
CODE_NOT_SEALED = 14
CODE_NOT_ENOUGH_MEMORY = 41
MAX_SIZE = 2**62
"""The daemon adds sizes up in signed 64 bits and dies of a SIGSEGV where the sum overflows: stay well below."""

# The daemon adds one word to the length of the memory that it shares, for its own allocator.
_MAP_EXTRA_BYTES = 8
_MAX_OBJECT_ID = 2**64 - 1
_DELETE_BATCH = 1024
_MAX_MESSAGE = 500
# No memory is mapped beyond the address space of a process.
_MAX_MAP_BYTES = 2**47

Json = dict[str, Any]


class MalformedError(Exception):
    """The bytes are not a reply to what was asked; the text says why."""


class RefusedError(Exception):
    """The daemon answered with an error code of its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Registration:
    """What the daemon answers to a new connection."""

    instance_id: int
    version: str
    ipc_socket: str


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The daemon's account of itself; memory in bytes, `deployment` is what it was started with."""

    instance_id: int
    deployment: str
    memory_usage: int
    memory_limit: int
    ipc_connections: int


@dataclass(frozen=True, slots=True)
class Location:
    """Where a blob lies: `size` bytes at `offset` of the shared memory named `store_fd`, `map_bytes` long."""

    object_id: int
    store_fd: int
    map_bytes: int
    offset: int
    size: int
    fd_follows: bool


def register_request() -> Json:
    return {
        "type": "register_request",
        "version": PROTOCOL_VERSION,
        "store_type": "Normal",
        "session_id": 0,
        "username": "",
        "password": "",
    }


def status_request() -> Json:
    return {"type": "instance_status_request"}


def create_request(size: int) -> Json:
    if not 0 <= size <= MAX_SIZE:
        raise ValueError(f"a blob's size is between 0 and {MAX_SIZE} bytes, not {size}")
    return {"type": "create_buffer_request", "size": size}


def seal_request(object_id: int) -> Json:
    return {"type": "seal_request", "object_id": _object_id(object_id)}


def get_request(object_id: int) -> Json:
    return {"type": "get_buffers_request", "0": _object_id(object_id), "num": 1, "unsafe": False}


def delete_requests(object_ids: Sequence[int]) -> list[Json]:
    """Makes the requests that delete all these objects, a thousand each."""
    starts = range(0, len(object_ids), _DELETE_BATCH)
    return [delete_request(object_ids[start : start + _DELETE_BATCH]) for start in starts]


def delete_request(object_ids: Sequence[int]) -> Json:
    ids = [_object_id(object_id) for object_id in object_ids]
    return {
        "type": "del_data_request",
        "id": ids,
        "force": False,
        "deep": True,
        "memory_trim": False,
        "fastpath": False,
    }


def encode(request: Json) -> bytes:
    """Makes the frame of a request."""
    body = json.dumps(request, separators=(",", ":")).encode()
    return struct.pack("<Q", len(body)) + body


def body_length(header: bytes) -> int:
    """Reads a frame's header; raises MalformedError where its body would be empty or too large."""
    length: int = struct.unpack("<Q", header)[0]
    if not 0 < length <= MAX_FRAME_BYTES:
        raise MalformedError(f"announced a reply of {length} bytes, expected 1 to {MAX_FRAME_BYTES}")
    return length


def decode(body: bytes, reply_type: str) -> Json:
    """Reads a reply of that type; raises RefusedError for the daemon's errors, MalformedError for anything else."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):  # deep nesting is an attack on the parser, not a bug of ours
        raise MalformedError(f"answered with {len(body)} bytes that are not JSON") from None
    if not isinstance(reply, dict):
        raise MalformedError(f"answered with a JSON {type(reply).__name__}, expected an object")
    if reply.get("code", 0) != 0:
        raise RefusedError(_integer(reply, "code"), str(reply.get("message", ""))[:_MAX_MESSAGE])
    if reply.get("type") != reply_type:
        raise MalformedError(f"answered with type {reply.get('type')!r:.100}, expected {reply_type!r}")
    return reply


def registration(reply: Json) -> Registration:
    return Registration(_integer(reply, "instance_id"), _text(reply, "version"), _text(reply, "ipc_socket"))


def status(reply: Json) -> InstanceStatus:
    meta = _object(reply, "meta")
    return InstanceStatus(
        instance_id=_integer(meta, "instance_id"),
        deployment=_text(meta, "deployment"),
        memory_usage=_integer(meta, "memory_usage"),
        memory_limit=_integer(meta, "memory_limit"),
        ipc_connections=_integer(meta, "ipc_connections"),
    )


def created(reply: Json, size: int) -> Location:
    """Reads where a new blob of `size` bytes lies."""
    location = _location(_object(reply, "created"), fd_follows=_integer(reply, "fd") != -1)
    if location.object_id != _integer(reply, "id") or location.size != size:
        raise MalformedError(f"made blob {location.object_id} of {location.size} bytes, asked for {size}")
    return location


def found(reply: Json, object_id: int) -> Location | None:
    """Reads where the one blob that was asked for lies; None: the daemon has no such blob."""
    payloads, fds = _array(reply, "payloads"), _array(reply, "fds")
    if not payloads and not fds:
        return None
    if len(payloads) != 1 or len(fds) > 1 or not isinstance(payloads[0], dict):
        raise MalformedError(f"answered with {len(payloads)} blobs and {len(fds)} descriptors, asked for one blob")
    location = _location(payloads[0], fd_follows=bool(fds))
    if location.object_id != object_id:
        raise MalformedError(f"answered with blob {location.object_id}, asked for {object_id}")
    return location


def _location(payload: Json, *, fd_follows: bool) -> Location:
    map_size = _integer(payload, "map_size")
    location = Location(
        object_id=_integer(payload, "object_id"),
        store_fd=_integer(payload, "store_fd"),
        map_bytes=max(map_size - _MAP_EXTRA_BYTES, 0),
        offset=_integer(payload, "data_offset"),
        size=_integer(payload, "data_size"),
        fd_follows=fd_follows,
    )
    inside = 0 <= location.offset <= location.offset + location.size <= location.map_bytes <= _MAX_MAP_BYTES
    if not inside or (fd_follows and location.map_bytes == 0):
        raise MalformedError(f"placed {location.size} bytes at {location.offset} of a memory of {location.map_bytes}")
    return location


def _object_id(value: int) -> int:
    if not 0 <= value <= _MAX_OBJECT_ID:
        raise ValueError(f"an object id has 64 bits and no sign, not {value}")
    return value


def _integer(source: Json, key: str) -> int:
    value = source.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        _wrong(key, "an integer", value)
    return value


def _text(source: Json, key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else _wrong(key, "a text", value)


def _object(source: Json, key: str) -> Json:
    value = source.get(key)
    return value if isinstance(value, dict) else _wrong(key, "an object", value)


def _array(source: Json, key: str) -> list[Any]:
    value = source.get(key)
    return value if isinstance(value, list) else _wrong(key, "an array", value)


def _wrong(key: str, expected: str, value: object) -> NoReturn:
    raise MalformedError(f"answered with {key}={value!r:.100}, expected {expected}")
