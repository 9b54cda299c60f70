"""The messages between a client and the worker, and whatever else may come on their socket."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.store import control
from kvberth.store.errors import Malformed

MESSAGES = [
    control.Hello(b"c" * 16, bytes(16)),
    control.Welcome(b"e" * 16, 3, (1 << 30,), ((0, 64, 4096), (0, 8192, 1 << 20))),
    control.Register(b"f" * 32, (4096, 4096), 0, 1),
    control.Layout(7, 8192, 2),
    control.Done((1, 2, 2**64 - 1)),
    control.Wait(("00.11",)),
    control.Refuse("budget", "Two slots do not fit."),
    control.Ask(),
    control.Told("Waiting for 1 client that maps an earlier store."),
    control.Bye(),
    control.Wake(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message: control.Message) -> None:
    assert control.decode(control.encode(message)) == message


def test_the_longest_messages_fit_into_a_packet() -> None:
    control.encode(control.Done((2**64 - 1,) * control.MAX_GRANTS))
    control.encode(control.Register(bytes(32), (10**10,) * control.MAX_REGIONS, 0, 1))
    control.encode(control.Welcome(bytes(16), 0, (1 << 40,), ((0, 1 << 40, 1 << 32),) * 257))
    with pytest.raises(ValueError, match="longer than"):
        control.encode(control.Refuse("x", "y" * control.MAX_BYTES))


def cut(packet: bytes) -> st.SearchStrategy[bytes]:
    return st.integers(0, len(packet)).map(lambda at: packet[:at])


@given(st.binary(max_size=300) | st.sampled_from([control.encode(each) for each in MESSAGES]).flatmap(cut))
def test_garbage_and_truncated_messages_are_malformed_and_nothing_worse(packet: bytes) -> None:
    read(packet)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(st.sampled_from(MESSAGES[:-1]), st.data())
def test_a_field_that_holds_anything_is_read_or_refused(message: control.Message, data: st.DataObject) -> None:
    said = json.loads(control.encode(message))
    said[data.draw(st.sampled_from(sorted(said)))] = data.draw(json_values)
    read(json.dumps(said).encode())


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"[" * control.MAX_BYTES,
        b" " * (control.MAX_BYTES + 1),
        b'{"v":2,"type":"bye"}',
        b'{"v":true,"type":"bye"}',
        b'{"v":1,"type":["bye"]}',
        b'{"v":1,"type":"done","grants":[' + b"1," * 600 + b"1]}",
        b'{"v":1,"type":"hello","client":"zz","epoch":""}',
    ],
)
def test_what_no_version_writes_is_refused_with_a_sentence(packet: bytes) -> None:
    with pytest.raises(Malformed, match=r"came|wrong"):
        control.decode(packet)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    assert control.decode(b'{"v":1,"type":"bye","why":"x"}') == control.Bye()


def read(packet: bytes) -> None:
    try:
        message = control.decode(packet)
    except Malformed:
        return
    assert control.decode(control.encode(message)) == message
