"""Looks after one cache's directory and socket, for as long as the directory is kept.

Probes fast after every change and slowly else, holds the connection of a daemon that answered, since its end is the
daemon's end, and asks it every second, since a stopped daemon closes nothing. What it finds goes through `verdict`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from kvberth.node_agent.sockets import faults
from kvberth.node_agent.sockets.access import selinux_hint
from kvberth.node_agent.sockets.directory import Directory, Identity, Place, prepare
from kvberth.node_agent.sockets.verdict import Answered, CacheAddress, Failed, Said, Standing, judge
from kvberth.node_agent.sockets.watches import DirectoryWatches
from kvberth.vineyard import CannotAsk, Client, ConnectionGone, DaemonHung, VineyardError
from kvberth_schemas.events import SocketLostReason

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often and how long, in seconds."""

    recheck_s: float = 1.0
    """Between two looks at what nothing stirred."""
    answer_s: float = 1.0
    """For one answer."""
    patience_s: float = 30.0
    """For one connection to a daemon that is not heard: it waits in line there, and is answered first."""
    first_s: float = 0.01
    """Until the second look after a change; then doubling to ``recheck_s``."""
    successor_s: float = 0.02
    """For the answer of whoever listens after the daemon that was held has closed."""
    least_s: float = 0.005
    """Between two looks, whatever stirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all watchers of an agent share. ``lagged(seconds)``: did our own loop run late in that time?"""

    watches: DirectoryWatches
    pace: Pace
    lagged: Callable[[float], bool]


class SocketWatcher:
    """One cache's watcher; ``say`` gets every event, on the loop."""

    def __init__(
        self, address: CacheAddress, directory: Directory, around: Surroundings, say: Callable[[Said], None]
    ) -> None:
        self.standing = Standing()
        self._address = address
        self._directory = directory
        self._around = around
        self._pace = around.pace
        self._say = say
        self._stir = asyncio.Event()
        self._delay_s = self._pace.first_s
        self._eof = False
        self._watched: tuple[int, Identity] | None = None
        self._complaint: str | None = None
        self._short = False

    @property
    def looked(self) -> bool:
        """Whether anything was said about this socket yet."""
        return self.standing.said is not None

    def keep(self, directory: Directory) -> None:
        """Take what a newer want says about mode and group."""
        self._directory = directory
        self._stir.set()

    async def run(self) -> None:
        """Look after the socket until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                await self._look()
                await self._pause(began)
        finally:
            self._unwatch()

    async def _look(self) -> None:
        """One round: the directory, the daemon, and holding it for as long as it answers."""
        place = prepare(self._directory)
        if isinstance(place, Failed):
            self._judge(place)
            return
        self._complain(place.complaint)
        self._watch(place.directory)
        async with self._connection(place) as client:
            if client is not None:
                await self._hold(client, place)
                self._delay_s = 0.0
            elif self._moved(place):
                self._stir.set()  # its stir may have been taken for the end of the probe

    @asynccontextmanager
    async def _connection(self, place: Place) -> AsyncIterator[Client | None]:
        """A connection whose daemon told its status; None when there is none."""
        probe = asyncio.create_task(self._probe(), name=f"probe {self._address.path}")
        probe.add_done_callback(self._wake)
        try:
            yield await self._answer_of(probe, place)
        finally:
            probe.remove_done_callback(self._wake)
            probe.cancel()
            await asyncio.wait({probe})
            if not probe.cancelled() and probe.exception() is None:
                await probe.result()[0].aclose()

    async def _probe(self) -> tuple[Client, Answered]:
        client = await Client.connect(self._address.path, timeout_s=self._pace.patience_s)
        try:
            status = await client.status(timeout_s=self._pace.answer_s)
        except BaseException:
            await client.aclose()
            raise
        return client, faults.answered(client.registration, status)

    async def _answer_of(self, probe: asyncio.Task[tuple[Client, Answered]], place: Place) -> Client | None:
        """Wait for the probe, saying what is missing meanwhile; None when it fails or asks in the wrong place."""
        after_eof, self._eof = self._eof, False
        while not probe.done():
            waited = await self._stirred(self._pace.successor_s if after_eof else self._pace.answer_s)
            if not waited:
                self._judge(faults.closed(self._address.path) if after_eof else self._hung())
                after_eof = False
            if not probe.done() and self._moved(place):
                return None
        try:
            client, answer = probe.result()
        except CannotAsk as error:
            self._say_shortage(error)  # no evidence: what was known stands
            return None
        except VineyardError as error:
            self._judge(self._hung() if isinstance(error, DaemonHung) else faults.unanswered(error))
            return None
        self._judge(answer)
        self._short = False
        return client

    async def _hold(self, client: Client, place: Place) -> None:
        """Return when the daemon closed, hangs, or another socket is in its place."""
        loop = asyncio.get_running_loop()
        closed = asyncio.create_task(client.wait_closed(), name=f"hold {self._address.path}")
        closed.add_done_callback(self._wake)
        due = loop.time() + self._pace.recheck_s
        try:
            while True:
                await self._stirred(due - loop.time())
                self._eof = closed.done()
                if self._eof or self._moved(place):
                    return
                if loop.time() >= due:
                    status = await client.status(timeout_s=self._pace.answer_s)
                    self._judge(faults.answered(client.registration, status))
                    due = loop.time() + self._pace.recheck_s
        except DaemonHung:
            self._judge(self._hung())
        except ConnectionGone:
            self._eof = True
        except VineyardError as error:
            self._judge(faults.unanswered(error))
        finally:
            closed.remove_done_callback(self._wake)
            closed.cancel()
            await asyncio.wait({closed})

    def _judge(self, outcome: Answered | Failed) -> None:
        if isinstance(outcome, Failed) and not outcome.certain and self._around.lagged(self._pace.answer_s):
            return  # it may be we who were late: no evidence
        if isinstance(outcome, Failed) and outcome.reason is SocketLostReason.DENIED:
            hint = selinux_hint(Path(self._address.path))
            outcome = replace(outcome, message=f"{outcome.message}{hint}")
        self.standing, event = judge(self._address, self.standing, outcome)
        if event is not None:
            self._delay_s = self._pace.first_s
            self._say(event)

    def _hung(self) -> Failed:
        return faults.hung(self._address.path, self._pace.answer_s)

    def _moved(self, place: Place) -> bool:
        """Whether directory or socket are others than those; also repairs the directory."""
        now = prepare(self._directory)
        return isinstance(now, Failed) or (now.directory, now.socket) != (place.directory, place.socket)

    def _complain(self, complaint: str | None) -> None:
        if complaint is not None and complaint != self._complaint:
            _log.warning(complaint)
        self._complaint = complaint

    def _say_shortage(self, error: CannotAsk) -> None:
        if not self._short:
            _log.error(str(error))
        self._short = True

    def _watch(self, directory: Identity) -> None:
        """Watch the directory that is there now; not the one that was."""
        if self._watched is not None and self._watched[1] == directory:
            return
        self._unwatch()
        descriptor = self._around.watches.add(self._directory.path, self._stir)
        self._watched = None if descriptor is None else (descriptor, directory)

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._around.watches.remove(self._watched[0], self._stir)
            self._watched = None

    def _wake(self, _task: asyncio.Task[Any]) -> None:
        self._stir.set()

    async def _pause(self, began: float) -> None:
        """Wait for the next look: the longer the more of them changed nothing, and until something stirs at most."""
        if await self._stirred(self._delay_s):
            self._delay_s = self._pace.first_s
        else:
            self._delay_s = min(max(2 * self._delay_s, self._pace.first_s), self._pace.recheck_s)
        await asyncio.sleep(began + self._pace.least_s - asyncio.get_running_loop().time())

    async def _stirred(self, timeout_s: float) -> bool:
        """Wait for a stir and take it; False when none came in time."""
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._stir.wait()
        except TimeoutError:
            return False
        self._stir.clear()
        return True
