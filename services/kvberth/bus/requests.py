"""Requests to the bare backend's scheduler, and their answers. Whatever goes wrong is answered by a sentence."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from kvberth.bus.background import Work
from kvberth.bus.connection import Connection
from kvberth.bus.context import BusContext
from kvberth.bus.errors import BusError, BusTimeout
from kvberth.bus.participant import Participant
from kvberth.bus.session import Session
from kvberth_schemas.envelope import MAX_BODY_BYTES, TRACEPARENT
from kvberth_schemas.model import Message
from kvberth_schemas.registry import encode
from kvberth_schemas.requests import Outcome, Reply, Result
from kvberth_schemas.subjects import Verb, api

_log = structlog.stdlib.get_logger(__name__)

M = TypeVar("M", bound=Message)
Handler = Callable[[Message], Awaitable[Message]]

FAULT = "kvberth-fault"
"""Header of an answer that is the sentence of a fault, as a `Reply` with one refused result."""

_WAITING = 64
_QUEUE_GROUP = "kvberth"


async def request(
    connection: Connection, context: BusContext, verb: Verb, message: Message, reply: type[M], timeout_s: float
) -> M:
    """Ask and read the answer; see `Bus.request`."""
    subject = api(verb)
    body = encode(message)
    if len(body) > MAX_BODY_BYTES:
        raise BusError(f"{verb}: the request has {len(body)} bytes; it would be {MAX_BODY_BYTES} at most")
    traceparent = context.metrics.traceparent()
    headers = {TRACEPARENT: traceparent} if traceparent else None
    try:
        async with asyncio.timeout(timeout_s):
            session = await connection.session()
            async with session.lifetime.scope():
                answer = await session.request(subject, body, headers, timeout_s)
    except TimeoutError as error:
        raise BusTimeout(f"{verb}: no answer within {timeout_s} s from {context.settings.url}") from error
    return _read(verb, answer, reply)


def _read(verb: Verb, answer: Msg, reply: type[M]) -> M:
    if FAULT in (answer.headers or {}) and reply is not Reply:
        raise BusError(f"{verb}: {Reply.model_validate_json(answer.data).results[0].sentence}")
    try:
        return reply.model_validate_json(answer.data)
    except ValidationError as error:
        raise BusError(f"{verb}: the answer is no {reply.__name__}; its sender speaks another version") from error


@dataclass(frozen=True, slots=True)
class Answering:
    """What a responder is made for."""

    verb: Verb
    request_type: type[Message]
    handler: Handler
    timeout_s: float


class Responder(Participant):
    """Answers one verb, one request after the other; use it with ``async with``."""

    def __init__(self, connection: Connection, context: BusContext, answering: Answering) -> None:
        """Made by `Bus.respond`."""
        super().__init__(connection)
        self._context = context
        self._answering = answering
        self._waiting: asyncio.Queue[tuple[Session, Msg]] = asyncio.Queue(_WAITING)

    def _tasks(self) -> Sequence[Work]:
        return [*super()._tasks(), self._answer_all]

    async def _work(self, session: Session) -> None:
        async def take(message: Msg) -> None:
            try:
                self._waiting.put_nowait((session, message))
            except asyncio.QueueFull:
                await self._fault(session, message, "busy", f"{_WAITING} requests wait already; ask again later")

        async with session.subscription(api(self._answering.verb), take, _QUEUE_GROUP):
            await asyncio.get_running_loop().create_future()

    async def _answer_all(self) -> None:
        # Outside of any session: a lost connection must not cut a handler in the middle.
        while True:
            session, message = await self._waiting.get()
            with self._context.metrics.handling(f"answer {self._answering.verb}", message.headers, message.reply):
                await self._answer(session, message)

    async def _answer(self, session: Session, message: Msg) -> None:
        what = self._answering
        try:
            asked = _asked(message, what.request_type)
        except ValueError as error:
            await self._fault(session, message, "bad_request", f"the request can't be read: {error}")
            return
        try:
            async with asyncio.timeout(what.timeout_s):
                answer = await what.handler(asked)
        except TimeoutError:
            await self._fault(session, message, "timeout", f"it was not done within {what.timeout_s} s")
        except Exception as error:  # noqa: BLE001 - one bad request must not end the service; it is logged and answered
            _log.exception("a request failed", verb=what.verb)
            await self._fault(session, message, "error", f"{type(error).__name__}: {error}")
        else:
            await self._send(session, message, encode(answer))

    async def _fault(self, session: Session, message: Msg, reason: str, sentence: str) -> None:
        self._context.metrics.count("failed_requests", reason)
        result = Result(
            kind=str(self._answering.verb), namespace=None, name="", outcome=Outcome.REFUSED, sentence=sentence
        )
        await self._send(session, message, encode(Reply(results=(result,))), {FAULT: reason})

    async def _send(self, session: Session, message: Msg, body: bytes, headers: dict[str, str] | None = None) -> None:
        if not message.reply:
            return
        try:
            async with session.lifetime.scope():
                await session.publish(message.reply, body, headers)
        except BusError as error:
            self._context.metrics.count("failed_requests", "not_answered")
            _log.warning("an answer was lost", verb=self._answering.verb, error=str(error))


def _asked(message: Msg, request_type: type[Message]) -> Message:
    if len(message.data) > MAX_BODY_BYTES:
        raise ValueError(f"it has {len(message.data)} bytes and would be {MAX_BODY_BYTES} at most")
    try:
        return request_type.model_validate_json(message.data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the body"
        raise ValueError(f"{field}: {first['msg']}") from error
