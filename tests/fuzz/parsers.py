"""Every reader of what comes from outside, with inputs to start from, and what it may do with any input.

A reader here calls the product's own, turns the errors that it documents into outcomes, and lets all others through.
"""

import contextlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError
from tests.fuzz import deep, talks
from tests.fuzz.apart import noting
from tests.fuzz.loop import Bounds, Parser, Report, fuzz

from kvberth.bus import decode
from kvberth.bus.pulses import Pulses
from kvberth.bus.skews import Skews, sentence
from kvberth.client.parts import Parts
from kvberth.gate import program
from kvberth.kube import Entry
from kvberth.kube.kinds import Malformed, Page
from kvberth.kube.lines import Lines
from kvberth.kvcache import (
    children,
    door_complaints,
    engine_container,
    kind_of,
    node_complaints,
    normalise,
    requested_resources,
    socket_host_paths,
)
from kvberth.kvcache.gates import ending_of
from kvberth.pod_watcher.watches import KVCACHE, NODE, POD
from kvberth.service.http import HttpServer
from kvberth.store import control
from kvberth.store.errors import Malformed as StoreMalformed
from kvberth.vineyard import wire
from kvberth_schemas import names, quantity
from kvberth_schemas.alive import Alive
from kvberth_schemas.manifests import Workload, load_documents
from kvberth_schemas.model import Event, Message, Want
from kvberth_schemas.registry import REQUESTS, WANTS, address, encode
from kvberth_schemas.registry import decode as decode_body
from kvberth_schemas.requests import Reply
from kvberth_schemas.subjects import AliveSubject, EventSubject, Service, WantSubject

TESTS = Path(__file__).parents[1]
CORPUS = Path(__file__).with_name("corpus")
_GOLDEN = TESTS / "unit" / "schemas" / "golden"
_CAPTURED = TESTS / "unit" / "pod_watcher" / "captured"
_YAML_BYTES = 4096  # PyYAML reads 72 KiB in a second
_TEXTS = tuple(path.read_text() for path in sorted((TESTS / "manifests").glob("*.yaml")))
_DOCUMENTS = tuple(item.raw for text in _TEXTS for item in load_documents(text, "seed"))


def parsers() -> dict[str, Parser]:
    """Give all of them by name; what once failed is among each one's seeds."""
    found = (
        Parser("quantity", _QUANTITIES, _quantity),
        Parser("manifest-text", tuple(_pieces(_TEXTS)), _manifest_text, _YAML_BYTES),
        Parser("kvcache", _documents("KVCache"), _kvcache),
        Parser("workload", _documents("Deployment", "StatefulSet"), _workload),
        Parser("node", tuple(_json(raw) for raw in _DOCUMENTS if raw.get("kind") == "Node"), _node),
        Parser("subject", _subjects(), _subject),
        Parser("bus-message", _messages(), _bus_message),
        Parser("request", _requests(), _request),
        Parser("alive", _BEATS, _alive),
        Parser("gate-rule", _RULES, _gate_rule),
        Parser("gate-ending", _ENDINGS, _gate_ending),
        Parser("gate-talk", talks.SEEDS, talks.gate),
        Parser("vineyard-wire", _REPLIES, _vineyard_wire),
        Parser("store-control", _PACKETS, _store_control, control.MAX_BYTES + 64),
        Parser("parts", _PARTS, _parts),
        Parser("bare-apply", (*map(_json, _DOCUMENTS), *_pieces(_TEXTS)), deep.bare_apply, _YAML_BYTES),
        Parser("placement", (*deep.told(), *_messages()), deep.placement),
        Parser("watch", _frames(), _watch),
        Parser("http", _HTTP, _http),
    )
    return {item.name: replace(item, seeds=(*item.seeds, *corpus(item.name))) for item in found}


def run(name: str, bounds: Bounds, seed: int, note: Path) -> Report:
    """Fuzz one of them by its name: what a process of its own is given to do."""
    return fuzz(parsers()[name], bounds, seed, noting(note))


def corpus(name: str) -> tuple[bytes, ...]:
    """Give what once failed in a parser."""
    return tuple(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _pieces(texts: Iterable[str]) -> Iterable[bytes]:
    """Short documents one by one, and what only a text can say: anchors, lists, merges."""
    for text in texts:
        yield from (piece.encode() for piece in text.split("\n---") if len(piece) < 900)
    yield b'a: &a [1]\nb: *a\n---\n{"kind": "List", "items": [{"kind": "KVCache"}]}\n---\n<<: {a: 1}\n'


def _documents(*kinds: str) -> tuple[bytes, ...]:
    return tuple(_json(raw) for raw in _DOCUMENTS if kind_of(raw) in kinds)


# --- manifests --------------------------------------------------------------------------------------------------------

_QUANTITIES = tuple(
    b"72Gi 1e3 500m .5 -1 0 12E 1E3 +1.5Ki 1,5Gi 72GB 100n 9223372036854775807 0.0000000001 1e-400".split()
)


def _quantity(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    outcome = []
    for read in (quantity.parse_quantity, quantity.parse_bytes, quantity.parse_cpu):
        try:
            value = read(text)
        except quantity.QuantityError as error:
            outcome.append(str(error))
        else:
            assert abs(value) <= quantity.MAX_VALUE
            outcome.append("read")
    return ";".join(outcome)


def _manifest_text(data: bytes) -> str:
    outcome = []
    for item in load_documents(data.decode("utf-8", "replace"), "any"):
        assert all(complaint.field and complaint.sentence() for complaint in item.complaints)
        outcome.append(item.complaints[0].sentence() if item.complaints else item.kind)
    return ";".join(outcome)


def _value(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _kvcache(data: bytes) -> str:
    raw = _value(data)
    refused, spec = door_complaints(raw), normalise(raw)  # type: ignore[arg-type] # anything, on purpose
    assert {item.field for item in refused} <= {item.field for item in spec.complaints}
    if spec.accepted:
        assert 64 * 2**20 <= spec.size_bytes <= spec.memory_bytes
        assert children(spec)[0].name == spec.name
    return ";".join(sorted(item.sentence() for item in spec.complaints))


def _workload(data: bytes) -> str:
    raw = _value(data)
    refused = door_complaints(raw)  # type: ignore[arg-type] # anything, on purpose
    if not refused and isinstance(raw, dict) and kind_of(raw) in {"Deployment", "StatefulSet"}:
        pod = Workload.model_validate(raw).spec.template.spec
        assert all(amount >= 0 for amount in requested_resources(pod).values())
        assert engine_container(pod) in pod.containers
        assert all(mounted for pair in socket_host_paths(pod) for mounted in pair)
    return ";".join(sorted(item.sentence() for item in refused))


def _node(data: bytes) -> str:
    raw = _value(data)
    return ";".join(item.sentence() for item in node_complaints(raw if isinstance(raw, dict) else {}))


# --- the bus ----------------------------------------------------------------------------------------------------------


def _subjects() -> tuple[bytes, ...]:
    said = {subject for _, subject, _ in _said()}
    alive = "kvberth.alive.v1.l20-a.node_agent.a=2Eb"
    return (alive.encode(), *(subject.encode() for subject in sorted(said)))


def _said() -> Iterable[tuple[Event | Want, str, bytes]]:
    """All golden payloads: message, subject, body."""
    for path in sorted(_GOLDEN.glob("*/*.json")):
        body = path.read_bytes()
        message = decode_body(path.parent.name, body)
        parts = [names.encode(address(message).get(part, names.NONE)) for part in ("node", "namespace", "object")]
        place = ".".join("-" if part == "=2D" else part for part in parts)
        yield message, deep.subject_of(message, place), body


def _messages() -> tuple[bytes, ...]:
    return tuple(deep.message_of(message, subject, json.loads(body)) for message, subject, body in _said())


def _subject(data: bytes) -> str:
    text, outcome = data.decode("utf-8", "replace"), []
    for kind in (EventSubject, WantSubject, AliveSubject):
        try:
            assert str(kind.parse(text)) == text
        except ValueError as error:
            outcome.append(str(error))
    return ";".join(outcome)


def _bus_message(data: bytes) -> str:
    read = deep.row_of(data)
    if isinstance(read, decode.Unreadable):
        assert read.sentence
        return f"{read.reason} {read.sentence}"
    assert read.term >= 0
    assert type(read.message).ce_type == read.envelope.type
    assert (read.envelope.type in WANTS) == isinstance(read.subject, WantSubject)
    assert all(time.tzinfo is not None for time in deep.times_of(read.message)), "a time of no zone"
    return read.envelope.type


def _requests() -> tuple[bytes, ...]:
    asked = (
        {"text": "kind: KVCache", "source": "-", "namespace": "default", "all_or_nothing": True},
        {"kind": "deploy", "namespace": "default", "name": "a", "replicas": 3},
        {"node": "l20-a", "labels": {"a": "b"}, "allocatable": {"memory_bytes": 1}, "boot_id": "1", "root": "/run/a"},
        {"found": True, "wanted": 1, "bound": 1},
        {"results": [{"kind": "KVCache", "namespace": None, "name": "a", "outcome": "refused", "sentence": "no"}]},
    )
    return tuple(_json(one) for one in asked)


def _request(data: bytes) -> str:
    return ";".join(_model(model)(data) for pair in REQUESTS.values() for model in (*pair, Reply))


_BEATS = tuple(
    _json({"term": 1, "complete": True, "stream_created": "2026-11-30T12:00:00Z"} | said)
    for said in ({}, {"said": "2026-11-30T12:00:00.5Z"}, {"said": "2026-11-30T12:00:00+14:00"}, {"said": 1e9})
)
_AGENT = AliveSubject(Service.NODE_AGENT, "a.b", "l20-a")


def _alive(data: bytes) -> str:
    told = _model(Alive)(data)
    if told == "read":
        alive = Alive.model_validate_json(data)
        Pulses().hear(_AGENT, alive, 0.0)
        skews, received = Skews(), datetime(2026, 11, 30, 12, tzinfo=UTC)
        for beat in range(3 if alive.said else 0):
            skews.hear(_AGENT, alive.said or received, received, float(beat))
        told += "".join(f" {sentence(_AGENT, skew)}" for skew in skews.told().values())
    return told


def _model(model: type[Message]) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        try:
            model.model_validate_json(data).model_dump_json()
        except ValidationError as error:
            return str(error.errors(include_url=False, include_input=False)[0]["msg"])
        return "read"

    return read


# --- gates, daemons, API servers, probes ------------------------------------------------------------------------------

_RULES = tuple(
    _json(rule)
    for rule in (
        {"policy": "wait", "timeout_s": 30},
        {"policy": "startWithoutCache", "timeout_s": None},
        {},
        {"timeout_s": 1.5},
    )
)
_ENDINGS = tuple(
    _json(
        {
            "kvberth": "gate",
            "outcome": outcome,
            "reason": "SocketAnswered",
            "waited_s": 0.1,
            "message": "the cache answers",
        }
    )
    for outcome in ("open", "timeout", "closed", "odd")
)
_PLACED = {"object_id": 5, "store_fd": 7, "map_size": 4104, "data_offset": 64, "data_size": 16, "pointer": 1}
_STATUS = {"instance_id": 0, "deployment": "a", "memory_usage": 1, "memory_limit": 2, "ipc_connections": 1}
_REPLIES = tuple(
    _json(reply)
    for reply in (
        {"type": "register_reply", "instance_id": 0, "version": "0.24.2", "ipc_socket": "/a", "store_match": True},
        {"type": "instance_status_reply", "meta": _STATUS},
        {"type": "create_buffer_reply", "id": 5, "created": _PLACED, "fd": 7},
        {"type": "get_buffers_reply", "payloads": [_PLACED], "fds": [7], "compress": False},
        {"code": 41, "message": "not enough memory"},
    )
)
_HTTP = (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"HEAD /metrics?a=b HTTP/1.0\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n")
_SERVER = HttpServer("127.0.0.1", 0, {})


def _gate_rule(data: bytes) -> str:
    try:
        found = program.parse_rule(data.decode(), program.Patience(30.0, starts_without=True))
    except (ValueError, RecursionError) as error:  # what the gate's own reading of its file takes
        return str(error)
    assert found.timeout_s is None or 0 <= found.timeout_s < 1e9
    return f"{found.timeout_s is None} {found.starts_without}"


def _gate_ending(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    return " ".join(f"{ending_of(text, code).outcome}" for code in (0, 1, None))[:60]


def _vineyard_wire(data: bytes) -> str:
    outcome = []
    readings: tuple[tuple[str, Callable[[wire.Json], object]], ...] = (
        ("register_reply", wire.registration),
        ("instance_status_reply", wire.status),
        ("create_buffer_reply", lambda reply: wire.created(reply, 16)),
        ("get_buffers_reply", lambda reply: wire.found(reply, 5)),
    )
    for kind, read in readings:
        with contextlib.suppress(wire.MalformedError):
            wire.body_length(data[:8].ljust(8, b"\0"))
        try:
            outcome.append(str(type(read(wire.decode(data, kind)))))
        except (wire.MalformedError, wire.RefusedError) as error:
            outcome.append(str(error))
    return ";".join(outcome)


_PACKETS = tuple(
    control.encode(message)
    for message in (
        control.Hello(bytes(range(16)), bytes(16)),
        control.Welcome(bytes(16), 3, (4096, 8192), ((0, 64, 128), (1, 0, 4096))),
        control.Register(bytes(32), (2**21, 4096), 0, 1),
        control.Layout(1, 2**21, 7),
        control.Done((1, 2, 2**63)),
        control.Wait(("ab", "cd")),
        control.Refuse("budget", "too much"),
        control.Ask(),
        control.Told("no store"),
        control.Bye(),
        control.Wake(),
    )
)


def _store_control(data: bytes) -> str:
    try:
        message = control.decode(data)
    except StoreMalformed as error:
        return str(error)
    assert control.decode(control.encode(message)) == message
    return type(message).__name__


_PARTS = (
    bytes(Parts()),
    bytes(Parts(bytes(range(16)), 1, ((3, 7), (4, 9)))),
    bytes(Parts(bytes(16), 2, ((0, 1), (2**40, 3), (5, 2**63), (6, 7)))),
)


def _parts(data: bytes) -> str:
    try:
        parts = Parts.from_bytes(data)
    except ValueError as error:
        return str(error)
    assert bytes(parts) == data
    assert sum(len(parts.of(shard)) for shard in range(min(parts.shards, 8))) <= len(parts.places)
    return f"{len(parts)} blocks of {parts.shards}"


def _frames() -> tuple[bytes, ...]:
    objects = [json.loads(path.read_text()) for path in sorted(_CAPTURED.glob("*.json"))]
    frames = [_json({"type": "ADDED", "object": one}) for one in objects]
    pages = [_json({"metadata": {"resourceVersion": "5"}, "items": [one]}) for one in objects]
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "7"}}}
    return (*frames, *pages, _json(bookmark), _json({"type": "ERROR", "object": {"code": 410, "kind": "Status"}}))


def _watch(data: bytes) -> str:
    outcome = []
    for kind in (POD, NODE, KVCACHE):
        for read in (kind.read_frame, kind.read_page, kind.read_bytes):
            try:
                found = read(data)
            except Malformed:
                outcome.append("-")
                continue
            outcome.append(type(found).__name__)
            for item in found.items if isinstance(found, Page) else [getattr(found, "item", found)]:
                _said_of(item)
    try:
        Lines(4096).feed(data)
    except Malformed:
        outcome.append("long")
    return " ".join(outcome)


def _said_of(item: object) -> None:
    """What a live KVCache or node says is an event as it is: it can be written, and read again."""
    if isinstance(item, Entry) and isinstance(item.value, Event):
        written = encode(item.value)
        assert encode(decode_body(item.value.ce_type, written)) == written


def _http(data: bytes) -> str:
    method, response = _SERVER._answer(data)
    assert response.status.value < 500
    return f"{method[:8]} {response.status}"
