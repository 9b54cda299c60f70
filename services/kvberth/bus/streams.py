"""The two streams: their configuration, who declares them, and their creation times, which tell a stream from its heir.

Nobody else asks for a stream's creation time. A stream that was deleted and declared again under an open consumer loses
messages without an error; so everything that is read from a stream is dropped when its creation time changes.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig, StreamInfo

from kvberth.bus.connection import Connection
from kvberth.bus.errors import BusError, StreamMissing
from kvberth.bus.participant import Participant
from kvberth.bus.session import Session, created_of
from kvberth_schemas.subjects import EVENTS_PATTERN, EVENTS_STREAM, WANTS_PATTERN, WANTS_STREAM

_log = structlog.stdlib.get_logger(__name__)

_UNKNOWN_CHECK_S = 0.2
_REFUSED_CHECK_S = 2.0
"""At most, where the server keeps refusing: what it refuses for is the installation's, and takes a person."""
_SECONDS_PER_DAY = 24 * 3600.0

_CONFIGS = {
    EVENTS_STREAM: StreamConfig(
        name=EVENTS_STREAM,
        subjects=[EVENTS_PATTERN],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_msgs_per_subject=32,
        max_age=_SECONDS_PER_DAY,
        duplicate_window=120.0,
    ),
    WANTS_STREAM: StreamConfig(
        name=WANTS_STREAM,
        subjects=[WANTS_PATTERN],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        discard=DiscardPolicy.OLD,
        max_msgs_per_subject=1,
        max_age=0,
        duplicate_window=120.0,
    ),
}


class Streams(Participant):
    """Knows both streams' creation times, and declares the streams where asked to."""

    def __init__(self, connection: Connection, check_s: float) -> None:
        """`check_s`: how often the creation times are asked for when nothing looks wrong."""
        super().__init__(connection)
        self._check_s = check_s
        self._created: dict[str, datetime] = {}
        self._replicas: int | None = None  # not ours to declare
        self._troubles: dict[str, str] = {}
        self._pause_s = _UNKNOWN_CHECK_S
        self._asked = asyncio.Event()
        self._known = asyncio.Condition()
        self._listeners: list[Callable[[], None]] = []

    @property
    def events_created(self) -> datetime | None:
        """Creation time of `KVBERTH_EVENTS` as known now; None while unknown."""
        return self._created.get(EVENTS_STREAM)

    @property
    def trouble(self) -> str | None:
        """Why a stream is not known, as the server says it; None where it says nothing, or there is no server."""
        return next(iter(self._troubles.values()), None)

    def created(self, stream: str) -> datetime | None:
        """A stream's creation time; None while unknown."""
        return self._created.get(stream)

    async def known(self, stream: str) -> datetime:
        """Wait until a stream's creation time is known."""
        async with self._known:
            await self._known.wait_for(lambda: stream in self._created)
        return self._created[stream]

    def ask(self) -> None:
        """Something looks wrong: ask the server now."""
        self._asked.set()

    def declare(self, replicas: int) -> None:
        """From now on make the streams wherever they are missing or configured otherwise."""
        self._replicas = replicas
        self._asked.set()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop whenever a creation time changed."""
        self._listeners.append(listener)

    def off_change(self, listener: Callable[[], None]) -> None:
        """Stop calling it."""
        self._listeners.remove(listener)

    async def _work(self, session: Session) -> None:
        try:
            while True:
                self._asked.clear()
                await self._look(session)
                await self._wait()
        finally:
            self._troubles, self._pause_s = {}, _UNKNOWN_CHECK_S
            await self._learn({})

    async def _look(self, session: Session) -> None:
        created, troubles = dict[str, datetime](), dict[str, str]()
        for name, config in _CONFIGS.items():
            try:
                info = await self._info(session, name, config)
            except BusError as error:
                if self._replicas is not None or not isinstance(error, StreamMissing):  # else another one declares it
                    troubles[name] = str(error)
                continue
            created[name] = created_of(info)
        self._note(troubles)
        await self._learn(created)

    def _note(self, troubles: dict[str, str]) -> None:
        """Tell of each trouble once, and ask the less often the longer it lasts."""
        for name in [name for name, why in troubles.items() if self._troubles.get(name) != why]:
            _log.warning("stream not known", stream=name, error=troubles[name])
        lasts = troubles and troubles == self._troubles
        self._pause_s = min(2 * self._pause_s, _REFUSED_CHECK_S) if lasts else _UNKNOWN_CHECK_S
        self._troubles = troubles

    async def _info(self, session: Session, name: str, config: StreamConfig) -> StreamInfo:
        if self._replicas is None:
            return await session.stream_info(name)
        return await session.declare_stream(config.evolve(num_replicas=self._replicas))

    async def _learn(self, created: dict[str, datetime]) -> None:
        if created == self._created:
            return
        self._created = created
        for listener in list(self._listeners):
            listener()
        async with self._known:
            self._known.notify_all()

    async def _wait(self) -> None:
        if len(self._created) < len(_CONFIGS):
            await asyncio.sleep(self._pause_s)
            return
        try:
            async with asyncio.timeout(self._check_s):
                await self._asked.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_UNKNOWN_CHECK_S / 2)  # a mismatch that lasts must not become a storm of questions
