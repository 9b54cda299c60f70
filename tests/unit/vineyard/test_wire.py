"""The protocol as values: frames out, checked replies in, and nothing but the two declared errors for anything else."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.vineyard import wire
from kvberth.vineyard.wire import InstanceStatus, Location, MalformedError, RefusedError, Registration

BLOB = 2**63 + 5
PLACE = {"object_id": BLOB, "store_fd": 8, "map_size": 4104, "data_offset": 64, "data_size": 100, "is_sealed": True}
META = {
    "instance_id": 3,
    "deployment": "life",
    "memory_usage": 1,
    "memory_limit": 2,
    "ipc_connections": 4,
    "rpc_connections": 0,
}
CREATED = {"type": "create_buffer_reply", "id": BLOB, "fd": 8, "created": PLACE}
FOUND = {"type": "get_buffers_reply", "num": 1, "fds": [], "payloads": [PLACE]}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_a_frame_is_a_little_endian_length_and_json() -> None:
    frame = wire.encode(wire.seal_request(BLOB))
    assert struct.unpack("<Q", frame[:8]) == (len(frame) - 8,)
    assert wire.body_length(frame[:8]) == len(frame) - 8
    assert json.loads(frame[8:]) == {"type": "seal_request", "object_id": BLOB}


@pytest.mark.parametrize("length", [0, wire.MAX_FRAME_BYTES + 1, 2**64 - 1])
def test_a_reply_of_no_or_too_many_bytes_is_malformed(length: int) -> None:
    with pytest.raises(MalformedError, match=str(length)):
        wire.body_length(struct.pack("<Q", length))


def test_the_largest_delete_request_of_a_batch_is_a_small_frame() -> None:
    assert len(wire.encode(wire.delete_request([2**64 - 1] * 1024))) < 32 * 1024


@pytest.mark.parametrize("object_id", [-1, 2**64])
def test_an_id_that_is_none_is_never_sent(object_id: int) -> None:
    for make in (wire.seal_request, wire.get_request, lambda value: wire.delete_request([1, value])):
        with pytest.raises(ValueError, match="64 bits"):
            make(object_id)


@pytest.mark.parametrize("size", [-1, wire.MAX_SIZE + 1])
def test_a_size_that_would_kill_the_daemon_is_never_sent(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        wire.create_request(size)


def test_a_refusal_carries_code_and_message() -> None:
    with pytest.raises(RefusedError) as caught:
        wire.decode(b'{"code":41,"message":"full"}', "create_buffer_reply")
    assert (caught.value.code, caught.value.message) == (41, "full")


def test_replies_of_vineyardd_are_read() -> None:
    register = {
        "type": "register_reply",
        "instance_id": 3,
        "version": "0.24.2",
        "ipc_socket": "/v",
        "store_match": True,
    }
    assert wire.registration(wire.decode(as_bytes(register), "register_reply")) == Registration(3, "0.24.2", "/v")
    assert wire.status({"meta": META}) == InstanceStatus(3, "life", 1, 2, 4)
    assert wire.created(CREATED, 100) == Location(BLOB, 8, 4096, 64, 100, fd_follows=True)
    assert wire.created(CREATED | {"fd": -1}, 100) == Location(BLOB, 8, 4096, 64, 100, fd_follows=False)
    assert wire.found(FOUND, BLOB) == Location(BLOB, 8, 4096, 64, 100, fd_follows=False)
    assert wire.found(FOUND | {"payloads": []}, BLOB) is None


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_a_reply_or_one_of_the_two_errors(body: bytes) -> None:
    with pytest.raises((MalformedError, RefusedError)):
        wire.decode(body, "seal_reply")


@given(json_values)
def test_json_of_any_shape_is_a_reply_or_one_of_the_two_errors(value: Any) -> None:
    with pytest.raises((MalformedError, RefusedError)):
        wire.decode(as_bytes(value), "seal_reply")


@given(st.sampled_from(sorted(META)), json_values)
def test_a_status_with_one_wrong_field_is_read_or_malformed(key: str, value: Any) -> None:
    meta = META | {key: value}
    if key == "rpc_connections" or type(value) is type(META[key]):
        assert wire.status({"meta": meta}) == InstanceStatus(*(meta[name] for name in InstanceStatus.__slots__))
    else:
        with pytest.raises(MalformedError, match=f"{key}="):
            wire.status({"meta": meta})


@given(st.sampled_from(sorted(PLACE)), json_values)
def test_a_place_with_one_wrong_field_is_inside_its_memory_or_malformed(key: str, value: Any) -> None:
    place = PLACE | {key: value}
    try:
        location = wire.created(CREATED | {"created": place}, 100)
        again = wire.found(FOUND | {"payloads": [place]}, BLOB)
    except MalformedError:
        return
    assert location.object_id == BLOB
    assert 0 <= location.offset <= location.offset + 100 <= location.map_bytes
    assert again is not None
    assert again.offset == location.offset


@given(json_values, json_values)
def test_what_is_found_is_one_blob_nothing_or_malformed(payloads: Any, fds: Any) -> None:
    try:
        location = wire.found({"payloads": payloads, "fds": fds}, BLOB)
    except MalformedError:
        return
    assert location is None
    assert payloads == fds == []
