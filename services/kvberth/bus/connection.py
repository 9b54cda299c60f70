"""Keeps a session alive for ever.

Owns connecting, the proof that a session still carries messages, and its replacement. Knows nothing of streams.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from kvberth.bus.background import Background, Work
from kvberth.bus.errors import BusError, SessionLost
from kvberth.bus.lifetime import Lifetime
from kvberth.bus.login import options
from kvberth.bus.metrics import Metrics
from kvberth.bus.session import Session, abandon, cancellable
from kvberth.bus.settings import BusSettings
from kvberth.bus.wrapped import client_for
from kvberth_schemas import names
from kvberth_schemas.rights import inbox

_log = structlog.stdlib.get_logger(__name__)
_SLICES = 4


class Connection(Background):
    """One connection after the other, without an end."""

    def __init__(self, settings: BusSettings, metrics: Metrics) -> None:
        """Nothing happens before ``async with``."""
        self._settings = settings
        self._metrics = metrics
        self._session: Session | None = None
        self._arrived = asyncio.Event()
        self._last_error = ""

    @property
    def connected(self) -> bool:
        """Whether a session is alive, as far as is known now."""
        return self._session is not None and not self._session.lifetime.ended

    @property
    def last_error(self) -> str:
        """Why there is no session, as far as a try told since the last one; empty where none did."""
        return self._last_error

    async def session(self) -> Session:
        """Wait for a living session."""
        while self._session is None or self._session.lifetime.ended:
            self._arrived.clear()
            await self._arrived.wait()
        return self._session

    def _tasks(self) -> Sequence[Work]:
        return [self._run]

    async def _run(self) -> None:
        while True:
            session = await self._connect()
            self._session = session
            self._arrived.set()
            try:
                async with session.lifetime.scope():
                    await self._watch(session)
            except BusError as error:
                session.lifetime.end(str(error))
                self._metrics.count("disconnects")
                _log.warning("disconnected", url=self._settings.url, why=session.lifetime.why)
            finally:
                self._session = None
                await session.close()
            await asyncio.sleep(self._settings.reconnect_wait_s / 2)

    async def _connect(self) -> Session:
        while True:
            client, lifetime = Client(), Lifetime()
            try:
                proof = options(self._settings)
                client = client_for(self._settings.url, tls="tls" in proof)
                with cancellable():
                    await self._open(client, lifetime, proof)
            except Exception as error:  # noqa: BLE001 - nats-py fails in any way at a peer that speaks no NATS
                await self._note(error)
                await abandon(client)
                await asyncio.sleep(self._settings.reconnect_wait_s)
            except asyncio.CancelledError:
                await abandon(client)
                raise
            else:
                self._metrics.count("connections")
                _log.info("connected", url=self._settings.url)
                self._last_error = ""
                return Session(client, lifetime, self._settings.publish_timeout_s)

    async def _open(self, client: Client, lifetime: Lifetime, proof: Mapping[str, Any]) -> None:
        async def closed() -> None:
            lifetime.end("the connection was closed by the server or its silence")

        settings = self._settings
        await client.connect(
            settings.url,
            name=f"{settings.service}/{settings.instance}",
            inbox_prefix=f"{inbox(settings.service)}.{names.encode(settings.instance)}",  # its key hears no other's
            **proof,
            allow_reconnect=False,  # a lost connection is replaced, see session.py
            max_reconnect_attempts=-1,  # while the server is absent: try for ever
            reconnect_time_wait=settings.reconnect_wait_s,  # type: ignore[arg-type] # nats-py sleeps any float
            ping_interval=settings.ping_s,  # type: ignore[arg-type] # as above
            max_outstanding_pings=2,
            connect_timeout=2,
            error_cb=self._note,
            closed_cb=closed,
            disconnected_cb=closed,
        )

    async def _note(self, error: Exception) -> None:
        """Count what nats-py reports aside (slow consumers, permission violations, a server that is absent)."""
        self._metrics.count("errors", type(error).__name__)
        text = f"{type(error).__name__}: {error}"
        # Who is not let in is told why and then cut off: in one try the reason is read, in the next only the cut.
        if "uthorization" in self._last_error and isinstance(error, ConnectionResetError):
            return
        if text != self._last_error:  # an absent server is reported twice a second
            self._last_error = text
            _log.warning("nats", error=text, url=self._settings.url)

    async def _watch(self, session: Session) -> None:
        """Return never; raise when a message to ourselves does not come back: server, read loop or flusher is dead."""
        echoed = asyncio.Event()

        async def echo(_: Msg) -> None:
            echoed.set()

        inbox = session.new_inbox()
        async with session.subscription(inbox, echo):
            while True:
                await asyncio.sleep(self._settings.ping_s)
                echoed.clear()
                await session.publish(inbox)
                await self._echoed(echoed)

    async def _echoed(self, echoed: asyncio.Event) -> None:
        # In slices: after a blocked loop one of them has passed at once, and the answer is read in the next.
        for _ in range(_SLICES):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.ping_timeout_s / _SLICES):
                    await echoed.wait()
                    return
        raise SessionLost(f"no message came back from {self._settings.url} in {self._settings.ping_timeout_s} s")
