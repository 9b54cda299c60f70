"""Says things on the bus that nobody of kvberth said: raw bytes, duplicates, late and changed messages."""

import asyncio
import base64
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import RawStreamMsg
from nats.js.errors import Error as StreamError
from nats.js.errors import NotFoundError

from kvberth.bus import BusError, BusSettings, login
from kvberth.scenario import durations
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.facts import Heard, Mark
from kvberth.scenario.format.verbs import Again, Publish
from kvberth.scenario.judge.events import matches
from kvberth_schemas.envelope import MESSAGE_ID, Envelope

CONNECT_WITHIN_S = 5
HEARD_WITHIN_S = 5
"""How long the onlooker may be behind the bus."""
_POLL_S = 0.02
NUMBER = "{n}"
"""Stands for the number of a message, from 1, in the subject and body of what is published several times."""
_NOW = re.compile(r"\{now(?:([+-])(\d+(?:ms|s|m|h)))?\}")
_SOURCE = "/kvberth/scenario/outsider"


async def publish(what: Publish, bus: BusSettings, heard: Callable[[], Sequence[Heard]]) -> str:
    """Publish a message as often as it says; `heard` gives the messages among which an earlier one is looked for.

    Raises:
        ScenarioError: the bus does not take it, or there is no such earlier message.
    """
    client = await _connected(bus)
    try:
        subject, body, headers = await _message(what, client, heard)
        every_s = durations.parse(what.every, {})
        for number in range(1, what.times + 1):
            if number > 1 and every_s:
                await client.flush(timeout=CONNECT_WITHIN_S)
                await asyncio.sleep(every_s)
            if number > 1 and _has_new_ids(what):
                headers |= _new_id()
            now = datetime.now(UTC)
            told = {name: timed(value, now) for name, value in headers.items()}
            await client.publish(spelled(subject, number, now), _spelled(body, number, now), headers=told)
        await client.flush(timeout=CONNECT_WITHIN_S)
    except (OSError, NatsError, StreamError) as error:
        raise ScenarioError(f"the bus does not take it: {error}") from error
    finally:
        await client.close()
    return f"{len(body)} bytes on {subject}"


async def _connected(bus: BusSettings) -> Client:
    client = Client()
    try:
        known = login.options(bus)
        try:
            await client.connect(bus.url, connect_timeout=CONNECT_WITHIN_S, allow_reconnect=False, **known)
        except BaseException:
            await client.close()  # a connection that was not let in stays open
            raise
    except (OSError, NatsError, BusError) as error:
        raise ScenarioError(f"the bus can't be reached: {error}") from error
    return client


def spelled(text: str, number: int, now: datetime) -> str:
    """Put in a message's number, and times that are said by their distance from now; pure."""
    return timed(text.replace(NUMBER, str(number)), now)


def timed(text: str, now: datetime) -> str:
    """Put in times for ``{now}``, ``{now+7m}``, ``{now-1h}``; pure."""

    def time(match: re.Match[str]) -> str:
        seconds = durations.parse(match[2], {}) if match[2] else 0.0
        return (now + timedelta(seconds=-seconds if match[1] == "-" else seconds)).isoformat(timespec="microseconds")

    return _NOW.sub(time, text)


def _spelled(body: bytes, number: int, now: datetime) -> bytes:
    """The same in bytes, of which not all may be text."""
    return spelled(body.decode(errors="surrogateescape"), number, now).encode(errors="surrogateescape")


def among(what: Publish, heard: Sequence[Heard], marks: Mapping[str, Mark]) -> Sequence[Heard]:
    """Give the messages among which an earlier one is looked for."""
    mark = what.again.since if what.again else None
    return heard[marks[mark].heard :] if mark else heard


async def _message(
    what: Publish, client: Client, heard: Callable[[], Sequence[Heard]]
) -> tuple[str, bytes, dict[str, str]]:
    if what.again is not None:
        return await _earlier(what.again, what, client, heard)
    if what.subject is None:
        raise ScenarioError("'publish' needs a 'subject' beside its body")
    headers = _envelope(what.type, what.subject).headers() if what.type else {}
    return what.subject, _body(what), headers | what.headers


def _has_new_ids(what: Publish) -> bool:
    return what.again.id == "new" if what.again else what.type is not None


def _new_id() -> dict[str, str]:
    return dict.fromkeys((MESSAGE_ID, "ce-id"), str(uuid.uuid4()))


def _body(what: Publish) -> bytes:
    if what.kind == "json":
        return json.dumps(what.value).encode()
    return base64.b64decode(what.value) if what.kind == "base64" else str(what.value).encode()


def _envelope(kind: str, subject: str) -> Envelope:
    return Envelope(str(uuid.uuid4()), f"kvberth.{kind}.v1", _SOURCE, datetime.now(UTC), subject)


async def _earlier(
    again: Again, what: Publish, client: Client, heard: Callable[[], Sequence[Heard]]
) -> tuple[str, bytes, dict[str, str]]:
    one, stored = await _still_stored(again, client, heard)
    headers = {name: value for name, value in (stored.headers or {}).items() if not name.startswith("Nats-Expected")}
    if again.id == "new":
        headers |= _new_id()
    body = stored.data or b""
    if again.fields:
        body = json.dumps(changed(json.loads(body), again.fields)).encode()
    return what.subject or one.subject, body, headers | what.headers


async def _still_stored(
    again: Again, client: Client, heard: Callable[[], Sequence[Heard]]
) -> tuple[Heard, RawStreamMsg]:
    """Find the message that is meant. What was heard last may be gone already when more came that is not heard yet."""
    deadline = asyncio.get_running_loop().time() + HEARD_WITHIN_S
    while True:
        found = [one for one in heard() if matches(again.event, one)]
        if not found:
            raise ScenarioError(f"nothing was heard like: {again.event}")
        one = found[0 if again.which == "first" else -1]
        try:
            return one, await client.jetstream().get_msg(one.stream, one.sequence)
        except NotFoundError as error:
            if again.which == "first" or asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(
                    f"it is no longer stored, so that it can't be said again: {one}; of a subject NATS keeps the "
                    "last 32 events, and only the last want"
                ) from error
        await asyncio.sleep(_POLL_S)


def changed(body: Any, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401 (any JSON)
    """Give a body with other values at dotted paths; pure."""
    result = json.loads(json.dumps(body))
    for path, value in fields.items():
        *outer, last = path.split(".")
        inner = result
        for part in outer:
            inner = inner[int(part)] if isinstance(inner, list) else inner.setdefault(part, {})
        inner[int(last) if isinstance(inner, list) else last] = value
    return result
