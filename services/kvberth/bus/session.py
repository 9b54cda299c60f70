"""One connection, from its connect to its end: every call to nats-py goes through here.

A lost connection is never repaired by nats-py, but replaced by a new session, on which everybody subscribes anew. So
there is no buffer of half-sent publishes that are sent a second time, no consumer that stays silent for 11-17 s, and a
read loop that died silently is cured by the same path as a dead server.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, ConsumerInfo, PubAck, RawStreamMsg, StreamConfig, StreamInfo

from kvberth.bus.errors import BusError, BusTimeout, NoResponder, SessionLost, StreamMissing, WrongSequence
from kvberth.bus.lifetime import Lifetime
from kvberth_schemas.envelope import MAX_BODY_BYTES

_WRONG_LAST_SEQUENCE = 10071
_DIFFERENT_CONFIG = 10058
_NO_MESSAGE = 10037
_NO_SUCH_SEQUENCE = 10043
_CLOSE_S = 1.0
_PENDING_BYTES = 256 * MAX_BODY_BYTES


class Session:
    """A living connection."""

    def __init__(self, client: Client, lifetime: Lifetime, timeout_s: float) -> None:
        """`timeout_s` bounds every question to JetStream."""
        self._client = client
        self._js: JetStreamContext = client.jetstream(timeout=timeout_s)
        self._jsm = client.jsm(timeout=timeout_s)
        self.lifetime = lifetime

    def new_inbox(self) -> str:
        """A subject that nobody else has."""
        return self._client.new_inbox()

    async def publish(self, subject: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Say something on plain NATS: not stored, not acknowledged."""
        with _translated(f"publishing {subject}"):
            # A copy: nats-py writes into the caller's headers.
            await self._client.publish(subject, body, headers=dict(headers) if headers else None)

    async def publish_stored(self, subject: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> PubAck:
        """Store a message.

        Raises:
            BusTimeout: no acknowledgement came: the message may be stored or not.
            WrongSequence: the subject's last message is not the expected one; it is not stored.
            StreamMissing: no stream takes the subject.
        """
        with _translated(f"publishing {subject}"):
            return await self._js.publish(subject, body, timeout=timeout_s, headers=dict(headers))

    async def request(self, subject: str, body: bytes, headers: Mapping[str, str] | None, timeout_s: float) -> Msg:
        """Ask and wait for one answer."""
        with _translated(f"asking {subject}"):
            return await self._client.request(subject, body, timeout_s, headers=dict(headers) if headers else None)

    @asynccontextmanager
    async def subscription(
        self, subject: str, callback: Callable[[Msg], Awaitable[None]], queue: str = ""
    ) -> AsyncIterator[None]:
        """Hand every message of a subject to `callback`, one after the other."""
        with _translated(f"subscribing to {subject}"):
            subscription = await self._client.subscribe(subject, queue, callback, pending_bytes_limit=_PENDING_BYTES)
        try:
            yield
        finally:
            await self._unsubscribe(subscription)

    async def _unsubscribe(self, subscription: Subscription) -> None:
        # A lost connection has no subscriptions left to end.
        with cancellable(), contextlib.suppress(nats.errors.Error, OSError):
            await subscription.unsubscribe()

    async def stream_info(self, stream: str) -> StreamInfo:
        """Ask for a stream.

        Raises:
            StreamMissing: it is not declared.
        """
        with _translated(f"asking for the stream {stream}"):
            return await self._jsm.stream_info(stream)

    async def declare_stream(self, config: StreamConfig) -> StreamInfo:
        """Make a stream, or give it this configuration."""
        with _translated(f"declaring the stream {config.name}"):
            try:
                return await self._jsm.add_stream(config)
            except nats.js.errors.BadRequestError as error:
                if error.err_code != _DIFFERENT_CONFIG:
                    raise
                return await self._jsm.update_stream(config)

    async def last_message(self, stream: str, subject: str) -> RawStreamMsg | None:
        """Read the last message of a subject; None where it has none."""
        with _translated(f"reading {subject}"):
            try:
                return await self._jsm.get_last_msg(stream, subject)
            except nats.js.errors.NotFoundError as error:
                if error.err_code == _NO_MESSAGE:
                    return None
                raise

    async def purge(self, stream: str, subject: str) -> None:
        """Remove a subject's messages."""
        with _translated(f"purging {subject}"):
            await self._jsm.purge_stream(stream, subject=subject)

    async def delete(self, stream: str, sequence: int) -> None:
        """Remove one message, if it is still there."""
        with _translated(f"deleting message {sequence} of {stream}"):
            try:
                await self._jsm.delete_msg(stream, sequence)
            except nats.js.errors.APIError as error:
                if error.err_code not in (_NO_SUCH_SEQUENCE, _NO_MESSAGE):
                    raise

    async def add_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Make a consumer."""
        with _translated(f"opening a consumer on {stream}"):
            return await self._jsm.add_consumer(stream, config)

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        """Ask for a consumer."""
        with _translated(f"asking for a consumer on {stream}"):
            info: ConsumerInfo = await self._jsm.consumer_info(stream, name)
            return info

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer, if it is still there: the server deletes it by itself some seconds after we left."""
        if not self.lifetime.ended:
            with contextlib.suppress(BusError), _translated(f"deleting a consumer on {stream}"):
                await self._jsm.delete_consumer(stream, name)

    async def close(self) -> None:
        """End the connection. Never raises, and takes a second at most, even from a frozen server."""
        self.lifetime.end("closed by us")
        await abandon(self._client)


async def abandon(client: Client) -> None:
    """Close a client whose server may be dead, frozen or absent, and leave no task of it behind."""
    with cancellable():
        try:
            async with asyncio.timeout(_CLOSE_S):
                await client.close()
        except (TimeoutError, nats.errors.Error, OSError, AssertionError, AttributeError):
            pass  # nats-py asserts and fails in parts that were never connected; what is left over is ended next
        finally:
            await _end(client)


async def _end(client: Client) -> None:
    # nats-py offers no way to give up on a peer that reads nothing: its close() waits for the buffers to drain.
    transport = client._transport  # noqa: SLF001 - see above
    writer = getattr(transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
    tasks = [
        task
        for task in (client._reading_task, client._ping_interval_task, client._flusher_task)  # noqa: SLF001 - see above
        if task is not None and task is not asyncio.current_task()
    ]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CLOSE_S)


@contextmanager
def cancellable() -> Iterator[None]:
    """Cure swallowed cancellations: nats-py drops them while it flushes, and asyncio.wait_for when it is just done."""
    task = asyncio.current_task()
    cancelling = task.cancelling() if task else 0
    try:
        yield
    finally:  # an error may hide a cancellation as well as a result
        if task and task.cancelling() > cancelling:
            raise asyncio.CancelledError


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Turn nats-py's errors into sentences."""
    try:
        with cancellable():
            yield
    except (nats.errors.NoRespondersError, nats.js.errors.NoStreamResponseError) as error:
        if isinstance(error, nats.js.errors.NoStreamResponseError):
            raise StreamMissing(f"{doing}: no stream takes it; it would be declared by placement") from error
        raise NoResponder(f"{doing}: nobody listens there") from error
    except nats.errors.TimeoutError as error:
        raise BusTimeout(f"{doing}: no answer came in time") from error
    except (nats.errors.ConnectionClosedError, nats.errors.OutboundBufferLimitError, OSError) as error:
        raise SessionLost(f"{doing}: the connection to NATS is lost") from error
    except nats.js.errors.APIError as error:
        raise _api_error(doing, error) from error
    except nats.errors.Error as error:
        raise BusError(f"{doing}: {error}") from error
    except json.JSONDecodeError as error:
        raise BusError(f"{doing}: the answer is no JSON; something else listens there") from error


def _api_error(doing: str, error: nats.js.errors.APIError) -> BusError:
    if error.err_code == _WRONG_LAST_SEQUENCE:
        return WrongSequence(f"{doing}: the subject's last message is another one than expected")
    if isinstance(error, nats.js.errors.NotFoundError | nats.js.errors.ServiceUnavailableError):
        return StreamMissing(f"{doing}: {error.description or 'JetStream is not available'}")
    return BusError(f"{doing}: the server refused: {error.description}")


def created_of(info: StreamInfo) -> datetime:
    """A stream's creation time: what tells it from another stream of the same name."""
    if info.created is None:
        raise BusError(f"the stream {info.config.name} has no creation time; the server would be 2.10 or newer")
    return info.created
