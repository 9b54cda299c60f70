"""Raw bytes of lists and watches as the reflector reads them."""

import json

import pytest
from pydantic import Field

from kvberth.kube.kinds import Bookmark, Fault, Kind, Malformed, Seen, whole
from kvberth.kube.lines import Lines
from kvberth.kube.objects import Entry, Key, KubeObject, Unreadable
from kvberth.kube.resources import CONFIG_MAPS, NODES, PODS


class Thing(KubeObject):
    data: dict[str, int] = Field(default_factory=dict)


KIND: Kind[Thing] = whole(CONFIG_MAPS, Thing)


def thing(name: str = "a", **data: object) -> dict:
    meta = {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": "7", "managedFields": [{"manager": "x"}]}
    return {"metadata": meta, "data": data, "other": 1}


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_page_keeps_what_the_model_names_and_its_token() -> None:
    page = KIND.read_page(raw({"metadata": {"resourceVersion": "9", "continue": "tok"}, "items": [thing(n=1)]}))
    assert (page.resource_version, page.more) == ("9", "tok")
    (item,) = page.items
    assert isinstance(item, Entry)
    assert (item.key, item.uid, item.resource_version) == (Key("ns", "a"), "u", "7")
    assert not hasattr(item.value, "other")


def test_an_empty_list_may_say_null() -> None:
    assert KIND.read_page(raw({"metadata": {"resourceVersion": "9"}, "items": None})).items == ()


def test_one_bad_item_stops_no_other() -> None:
    page = KIND.read_page(raw({"metadata": {"resourceVersion": "9"}, "items": [thing("bad", n="x"), thing("good")]}))
    bad, good = page.items
    assert isinstance(bad, Unreadable)
    assert bad.key == Key("ns", "bad")
    assert "data.n" in bad.why
    assert isinstance(good, Entry)


def test_bad_metadata_still_names_the_object() -> None:
    value = thing()
    value["metadata"]["labels"] = ["no", "labels"]
    item = KIND.read(value)
    assert isinstance(item, Unreadable)
    assert (item.key, item.uid, item.resource_version) == (Key("ns", "a"), "u", "7")


def test_what_trimming_refuses_is_unreadable() -> None:
    def refuse(item: Thing) -> Thing:
        raise ValueError("spec.size is below 0")

    item = Kind(CONFIG_MAPS, Thing, refuse).read_page(raw({"metadata": {"resourceVersion": "1"}, "items": [thing()]}))
    assert [bad.why for bad in item.items if isinstance(bad, Unreadable)] == ["spec.size is below 0"]


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_a_frame_about_an_object_is_read(type_: str) -> None:
    frame = KIND.read_frame(raw({"type": type_, "object": thing(n=3)}))
    assert isinstance(frame, Seen)
    assert (frame.type, frame.item.key.name) == (type_, "a")


def test_a_bookmark_gives_its_version() -> None:
    frame = raw({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12", "creationTimestamp": None}}})
    assert KIND.read_frame(frame) == Bookmark("12")


def test_the_servers_error_in_a_stream_is_told_apart_from_an_object() -> None:
    status = {"kind": "Status", "metadata": {}, "code": 410, "reason": "Expired", "message": "too old"}
    frame = KIND.read_frame(raw({"type": "ERROR", "object": status}))
    assert isinstance(frame, Fault)
    assert frame.status == 410


@pytest.mark.parametrize(
    "line",
    [
        b"<html>502</html>",
        b'{"type":"ADDED","object":{"metada',
        b"[]",
        b'"text"',
        raw({"type": "ADDED"}),
        raw({"type": "ADDED", "object": {"metadata": {}}}),
        raw({"type": "NEW", "object": thing()}),
        raw({"type": "BOOKMARK", "object": {"metadata": {}}}),
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_no_watch_says_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        KIND.read_frame(line)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", raw({"kind": "Status"}), raw({"metadata": {"resourceVersion": "1"}, "items": [1]})]
)
def test_what_is_no_list_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        KIND.read_page(body)


def test_lines_are_put_together_from_any_pieces() -> None:
    text = b'{"a":1}\n\n{"b":2}\n{"c"'
    for size in range(1, len(text) + 1):
        lines = Lines(1000)
        found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
        assert found == [b'{"a":1}', b'{"b":2}']
        assert lines.unfinished


def test_a_line_without_an_end_is_given_up() -> None:
    lines = Lines(100)
    lines.feed(b"x" * 60)
    with pytest.raises(Malformed, match="100 bytes"):
        lines.feed(b"x" * 60)


def test_paths_name_the_object_and_quote_it() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "a", "eviction") == "/api/v1/namespaces/ns/pods/a/eviction"
    assert NODES.path(None, "a/b?c") == "/api/v1/nodes/a%2Fb%3Fc"
