"""An ephemeral push consumer that notices when it misses something.

nats-py's own ordered consumer stays silent for 11-17 s after a restart and reports nothing. This one raises at the
first gap in the consumer's sequence, at a heartbeat that names a message which never came, or after three missed
heartbeats; its owner then opens another. The server deletes it some seconds after its subscription ended, so that none
is leaked.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, DeliverPolicy

from kvberth.bus.errors import ConsumerLost
from kvberth.bus.session import Session

_QUEUE = 512
_MISSED = 3
_INACTIVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One stored message."""

    subject: str
    headers: Mapping[str, str]
    body: bytes
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a consumer delivers."""

    stream: str
    patterns: Sequence[str]
    policy: DeliverPolicy = DeliverPolicy.LAST_PER_SUBJECT
    start: int | None = None
    """Stream sequence to start with, for `BY_START_SEQUENCE`."""


@dataclass(slots=True)
class Consumer:
    """An open consumer; `next` is for one task."""

    session: Session
    inbox: str
    heartbeat_s: float
    info: ConsumerInfo
    messages: asyncio.Queue[Msg]
    caught_up: bool = False
    """Whether everything that the stream held when this was opened has been returned by `next`."""
    _seen: int = field(default=0)

    async def next(self) -> Delivery | None:
        """The next message; None after a heartbeat, at which `caught_up` may have become true.

        Raises:
            ConsumerLost: messages or heartbeats are missing.
        """
        message = await self._take()
        if message.subject == self.inbox:
            await self._control(message)
            return None
        metadata = message.metadata
        if metadata.sequence.consumer != self._seen + 1:
            raise ConsumerLost(f"message {self._seen + 1} of the consumer never came")
        self._seen += 1
        self.caught_up = self.caught_up or metadata.num_pending == 0
        return Delivery(message.subject, message.headers or {}, message.data, metadata.sequence.stream)

    async def _take(self) -> Msg:
        try:
            return self.messages.get_nowait()
        except asyncio.QueueEmpty:
            pass
        try:
            async with asyncio.timeout(_MISSED * self.heartbeat_s):
                return await self.messages.get()
        except TimeoutError as error:
            raise ConsumerLost(f"the consumer has been silent for {_MISSED * self.heartbeat_s} s") from error

    async def _control(self, message: Msg) -> None:
        headers = message.headers or {}
        if headers.get("Status") != "100":
            raise ConsumerLost(f"the server ended the consumer: {headers.get('Description', 'no reason given')}")
        reply = message.reply or headers.get("Nats-Consumer-Stalled")
        if reply:
            await self.session.publish(reply)  # flow control: all before it is handled
        last = headers.get("Nats-Last-Consumer")
        if last is not None and int(last) != self._seen:
            raise ConsumerLost(f"message {last} of the consumer never came")
        if last is not None and not self.caught_up:
            # What was pending may have been purged meanwhile: then no message ever says that it is the last one.
            await self.check(await self.session.consumer_info(self.info.stream_name, self.info.name))

    async def check(self, info: ConsumerInfo) -> None:
        """Look whether nothing is left to come: an empty stream delivers nothing that could say so."""
        delivered = info.delivered.consumer_seq if info.delivered else 0
        self.caught_up = self.caught_up or (info.num_pending == 0 and delivered <= self._seen)


@asynccontextmanager
async def open_consumer(session: Session, what: Filter, heartbeat_s: float) -> AsyncIterator[Consumer]:
    """Open a consumer, and delete it afterwards.

    Raises:
        StreamMissing: the stream is not declared.
    """
    inbox = session.new_inbox()
    messages: asyncio.Queue[Msg] = asyncio.Queue(_QUEUE)
    async with session.subscription(inbox, messages.put):
        info = await session.add_consumer(what.stream, _config(what, inbox, heartbeat_s))
        consumer = Consumer(session, inbox, heartbeat_s, info, messages)
        await consumer.check(info)
        try:
            yield consumer
        finally:
            await session.delete_consumer(what.stream, info.name)


def _config(what: Filter, inbox: str, heartbeat_s: float) -> ConsumerConfig:
    return ConsumerConfig(
        deliver_subject=inbox,
        deliver_policy=what.policy,
        opt_start_seq=what.start,
        filter_subjects=list(dict.fromkeys(what.patterns)),
        ack_policy=AckPolicy.NONE,
        max_deliver=1,
        flow_control=True,
        idle_heartbeat=heartbeat_s,
        inactive_threshold=_INACTIVE_S,
        mem_storage=True,
        num_replicas=1,
    )
