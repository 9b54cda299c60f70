"""Readers together with what decides on their word: an input that is let in must not fail later on.

The bare scheduler's `apply` with a turn after it, and placement's index with a plan after it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count

from pydantic import BaseModel, ValidationError
from tests.support.placement_world import World

from kvberth.bare.scheduler.apply import Moment, apply
from kvberth.bare.scheduler.records import NodeRecord
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth.bus import decode
from kvberth.placement.states import Cause
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import Resources
from kvberth_schemas.model import Event, Want
from kvberth_schemas.registry import ENTITIES, WANT_KINDS
from kvberth_schemas.requests import ApplyRequest
from kvberth_schemas.subjects import EventSubject

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def subject_of(message: Event | Want, place: str) -> str:
    """Spell the subject of a message whose node, namespace and object are encoded already."""
    if isinstance(message, Want):
        return f"kvberth.want.v1.{place}.{WANT_KINDS[type(message)]}"
    return f"kvberth.evt.v1.{place}.{ENTITIES[type(message)]}"


def times_of(value: object) -> Iterator[datetime]:
    """All times in a message."""
    if isinstance(value, BaseModel):
        yield from times_of(dict(value))
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(times_of, value.values()))
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(times_of, value))
    elif isinstance(value, datetime):
        yield value


def row_of(data: bytes) -> decode.Row | decode.Unreadable:
    """Read a stored message: JSON with subject, headers and body; other bytes are a body by themselves."""
    try:
        told = json.loads(data)
        body = json.dumps(told["body"]).encode("utf-8", "surrogatepass")
        headers = {str(key): str(value) for key, value in dict(told["headers"]).items()}
        subject = str(told["subject"])
    except (ValueError, RecursionError, TypeError, KeyError):
        subject, headers, body = "kvberth.evt.v1.-.-.l20-a.node", _HEADERS, data
    return decode.read(subject, headers, body, 1)


_HEADERS: Mapping[str, str] = {
    "ce-id": "1",
    "ce-type": "kvberth.node.changed.v1",
    "ce-source": "/kvberth/test/1",
    "ce-time": "2026-11-30T12:00:00Z",
}


def bare_apply(data: bytes) -> str:
    """Apply a text, and let the scheduler take its turn."""
    try:
        request = ApplyRequest(text=data.decode("utf-8", "replace"), source="any", namespace="default")
    except ValidationError as error:
        return str(error.error_count())
    numbers = count()
    moment = Moment(NOW, lambda: f"uid-{next(numbers)}")
    state, results = apply(_BARE, request, moment)
    assert results
    after = turn(state, Seen(living_nodes=frozenset({"l20-a"}), silence={"l20-a": 0.0}), Limits(), moment).state
    assert set(after.manifests) <= set(state.manifests)
    return ";".join(f"{result.outcome} {result.sentence} {' '.join(result.warnings)}" for result in results)


def _node() -> NodeRecord:
    return NodeRecord(
        name="l20-a",
        labels={"machine.cluster.vke.volcengine.com/gpu-name": "NVIDIA-L20"},
        allocatable=Resources(memory_bytes=2**40, cpu_millis=64_000, gpus=8),
        boot_id="1",
        root="/run/kvb/l20-a",
    )


_BARE = State().put(_node())


def placement(data: bytes) -> str:
    """Let placement take a message into a small cluster at rest, and plan."""
    read = row_of(data)
    if isinstance(read, decode.Unreadable) or not isinstance(read.subject, EventSubject):
        return "unreadable"
    assert isinstance(read.message, Event)
    world = replace(_WORLD, states=dict(_WORLD.states), statuses=dict(_WORLD.statuses))
    world.states[read.subject] = (read.message, Cause("event-x", None, 999, NOW))
    outcome = [read.envelope.type]
    index = world.index()
    for namespace in sorted({*index.namespaces, "default"}):
        world.now = NOW
        result = world.plan(namespace=namespace)
        for status in result.statuses:
            status.model_dump_json()
        outcome.extend(type(step).__name__ for step in result.steps)
    return ";".join(outcome)


def _world() -> World:
    world = World()
    for node in ("l20-a", "l20-b", "l20-c"):
        world.node(node)
    world.kvcache()
    world.engine("uid-1", "l20-a")
    world.engine("uid-2", "l20-b")
    world.act()
    for node in ("l20-a", "l20-b"):
        world.cache_runs(node)
        world.socket_ready(node)
        world.health(node)
    world.engine_gone("uid-2", "l20-b")
    world.engine("uid-3", "l20-c")
    return world


_WORLD = _world()


def told() -> tuple[bytes, ...]:
    """Give what is said in that cluster as messages: an input made from them is about what is there."""
    return tuple(
        message_of(event, str(subject), event.model_dump(mode="json")) for subject, (event, _) in _WORLD.states.items()
    )


def message_of(message: Event | Want, subject: str, body: object) -> bytes:
    """Write a message as `row_of` reads it."""
    headers = Envelope("id-1", message.ce_type, "/kvberth/test/1", NOW, subject, "id-0", None).headers()
    return json.dumps({"subject": subject, "headers": headers, "body": body}).encode()
