"""The bus as services use it: one connection, and what runs on it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from kvberth.bus import requests, tail
from kvberth.bus.clock import Clock
from kvberth.bus.connection import Connection
from kvberth.bus.context import BusContext
from kvberth.bus.decode import Row
from kvberth.bus.ledger import GoneMaker, Writing
from kvberth.bus.liveness import Heart, Liveness
from kvberth.bus.metrics import Metrics, Telemetry
from kvberth.bus.publisher import LogPublisher
from kvberth.bus.reconcile import Absent
from kvberth.bus.requests import Answering, Responder
from kvberth.bus.settings import BusSettings
from kvberth.bus.streams import Streams
from kvberth.bus.view import View
from kvberth.bus.writer import Writer
from kvberth_schemas.model import Event, Message
from kvberth_schemas.subjects import EventSubject, Verb

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)


class Bus:
    """One connection to NATS, held for as long as its ``async with`` block runs.

    Views, writers, liveness, hearts and responders are ``async with`` blocks inside of it.
    """

    def __init__(self, settings: BusSettings, telemetry: Telemetry | None = None, clock: Clock | None = None) -> None:
        """Nothing happens before ``async with``."""
        self._context = BusContext(settings, Metrics(telemetry), clock or Clock())
        self._connection = Connection(settings, self._context.metrics)
        self._context.metrics.connected_by(lambda: self.connected)
        self.streams = Streams(self._connection, settings.created_check_s)
        self._logs = LogPublisher(self._connection, self.streams, self._context)

    async def __aenter__(self) -> Self:
        """Start to connect, in the background and for ever: returns at once, an absent server is no error."""
        self._stack = AsyncExitStack()
        for part in (self._connection, self.streams, self._logs):
            await self._stack.enter_async_context(part)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._stack.__aexit__(kind, error, trace)

    @property
    def connected(self) -> bool:
        """Whether the connection carries messages, as far as is known now (a dead server is noticed within 3 s)."""
        return self._connection.connected

    @property
    def last_error(self) -> str:
        """What the last tries to connect ended in, such as a key that is refused; empty where they told nothing."""
        return self._connection.last_error

    async def declare(self, replicas: int = 1) -> None:
        """Only placement: from now on make both streams at every connect, and again when one is deleted under us.

        `replicas`: on how many servers of a cluster each stream is kept.
        """
        self.streams.declare(replicas)

    def view(self, patterns: Sequence[str]) -> View:
        """The last states of the patterns' subjects, all of one stream.

        Raises:
            NotOurs: the patterns lie in no one stream.
        """
        return View(self._connection, self.streams, patterns, self._context)

    def writer(
        self,
        patterns: Sequence[str],
        *,
        absent: Absent,
        gone: GoneMaker | None = None,
        found: Callable[[Row], None] = lambda _row: None,
    ) -> Writer:
        """The writer of the patterns' subjects, all of one stream; `gone` is for `Absent.GONE`, and needed there.

        `found` gets, on the loop, every row that the stream is seen to hold before anything is said over it.

        Raises:
            NotOurs: the patterns lie in no one stream.
        """
        writing = Writing(tuple(patterns), absent, gone, found)
        return Writer(self._connection, self.streams, writing, self._context)

    def liveness(self) -> Liveness:
        """Who is alive, and whose word counts."""
        return Liveness(self._connection, self.streams, self._context)

    def heart(self, writers: Sequence[Writer] = (), complete: Callable[[], bool] = lambda: True) -> Heart:
        """Our own sign of life; it says complete when every writer is reconciled and `complete()` holds."""
        return Heart(self._connection, self.streams, self._context, writers=writers, complete=complete)

    @property
    def logs_waiting(self) -> int:
        """How many events of log entities are not stored yet."""
        return self._logs.waiting

    async def publish_log(
        self, subject: EventSubject, event: Event, cause: str | None = None, *, tried_for_s: float = 15.0
    ) -> str:
        """Queue an event of a log entity and give its id; it is tried for so long, then dropped and counted.

        Raises:
            BodyTooLong: the body has more than `MAX_BODY_BYTES`.
        """
        return self._logs.put(subject, event, cause, tried_for_s)

    async def request(self, verb: Verb, message: Message, reply: type[M], timeout_s: float = 2.0) -> M:
        """Ask the scheduler.

        Raises:
            BusTimeout: no answer in time.
            NoResponder: nobody answers that verb.
            BusError: the answer is a fault's sentence (where `reply` is a `Reply`, it is returned), or can't be read.
        """
        return await requests.request(self._connection, self._context, verb, message, reply, timeout_s)

    def respond(
        self,
        verb: Verb,
        request_type: type[R],
        handler: Callable[[R], Awaitable[Message]],
        handler_timeout_s: float = 10.0,
    ) -> Responder:
        """Answer a verb, one request after the other, for as long as the ``async with`` block runs."""
        untyped = cast("Callable[[Any], Awaitable[Message]]", handler)
        return Responder(self._connection, self._context, Answering(verb, request_type, untyped, handler_timeout_s))

    def log_tail(self, pattern: str | Sequence[str], start: tail.Start = "last") -> AsyncGenerator[Row, None]:
        """Follow messages: the last of each subject first, or all that the stream holds, or only what comes."""
        patterns = (pattern,) if isinstance(pattern, str) else tuple(pattern)
        return tail.tail(self._connection, self.streams, self._context, patterns, start)
