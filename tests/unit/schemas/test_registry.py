"""Bodies are read by their type; what can't be read is refused with the field."""

import json
from datetime import datetime
from typing import get_args

import pytest

from kvberth_schemas.alive import Alive
from kvberth_schemas.events import CacheHealthV1, SocketReadyV1
from kvberth_schemas.model import Event, Message, Want
from kvberth_schemas.registry import EVENTS, REQUESTS, WANTS, DecodeError, UnknownTypeError, decode, encode
from kvberth_schemas.subjects import Verb

READY = SocketReadyV1(
    cache="k",
    namespace="default",
    node="l20-a",
    path="/run/x/default/k/vineyard.sock",
    incarnation="i1",
    instance_id=2**64 - 1,
    version="0.24.2",
    memory_usage=0,
    memory_limit=1 << 26,
)


def test_a_message_comes_back_from_its_body():
    assert decode(READY.ce_type, encode(READY)) == READY


def test_extra_fields_are_ignored():
    body = json.dumps({**json.loads(encode(READY)), "colour": "blue"}).encode()
    assert decode(READY.ce_type, body) == READY


@pytest.mark.parametrize("ce_type", ["", "kvberth.socket.ready", "kvberth.socket.ready.v2", "com.example.x.v1"])
def test_an_unknown_type_or_version_is_told_apart(ce_type):
    with pytest.raises(UnknownTypeError, match="is not known"):
        decode(ce_type, encode(READY))


@pytest.mark.parametrize(("change", "field"), [({"instance_id": "many"}, "instance_id"), ({"cache": None}, "cache")])
def test_a_wrong_field_is_named(change, field):
    body = json.dumps({**json.loads(encode(READY)), **change}).encode()
    with pytest.raises(DecodeError, match=f"{READY.ce_type}: {field}: "):
        decode(READY.ce_type, body)


def test_a_missing_field_is_named():
    body = json.loads(encode(READY))
    del body["node"]
    with pytest.raises(DecodeError, match="node: Field required"):
        decode(READY.ce_type, json.dumps(body).encode())


def test_a_wrong_field_deep_inside_is_named_with_its_path():
    body = {"name": "n", "resource_version": 1, "ready": True, "allocatable": {"gpus": "x"}, "requested": {}}
    with pytest.raises(DecodeError, match=r"allocatable\.gpus"):
        decode("kvberth.node.changed.v1", json.dumps(body).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(body):
    with pytest.raises(DecodeError, match="the body"):
        decode(READY.ce_type, body)


def test_types_are_named_after_their_version_and_never_shared():
    for ce_type, cls in {**EVENTS, **WANTS}.items():
        assert ce_type.startswith("kvberth.")
        assert ce_type.rpartition(".")[2] == f"v{cls.__name__.rpartition('V')[2]}"
    assert not EVENTS.keys() & WANTS.keys()


def test_messages_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        READY.node = "l20-b"


def test_every_event_and_want_class_is_registered():
    def leaves(cls):
        return {leaf for sub in cls.__subclasses__() for leaf in leaves(sub)} or {cls}

    ours = {cls for base in (Event, Want) for cls in leaves(base) if cls.__module__.startswith("kvberth_schemas.")}
    assert ours == {*EVENTS.values(), *WANTS.values()}


def test_every_verb_has_a_request_and_a_reply():
    assert set(Verb) == REQUESTS.keys()


def _all_of(model):
    yield model
    for more in model.__subclasses__():
        yield from _all_of(more)


def test_every_time_in_a_message_says_its_zone():
    messages = set(_all_of(Message))
    assert Alive in messages
    named = {
        f"{message.__name__}.{name}"
        for message in messages
        for name, field in message.model_fields.items()
        if datetime in (field.annotation, *get_args(field.annotation))
    }
    assert named == set(), "these would take a time of no zone, which can't be compared with another one"


def test_a_time_of_no_zone_is_refused_with_its_field():
    body = {"cache": "k", "namespace": "default", "node": "a", "incarnation": None, "verdict": "failed"}
    body |= {"reason": "Hung", "message": "", "last_proof": "2026-01-01T00:00:00"}
    with pytest.raises(DecodeError, match="last_proof"):
        decode(CacheHealthV1.ce_type, json.dumps(body).encode())
