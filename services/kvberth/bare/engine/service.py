"""The stand-in as a process: waits for its cache as a real engine does, serves /health, ends in order.

A legacy engine (it talks to vineyardd itself) ends with code 1 when no daemon answers within ten tries at its start;
once it has started it goes on serving whatever happens to the cache, and uses a new daemon when there is one.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from kvberth.bare.engine.health import serve_health
from kvberth.bare.engine.settings import EngineSettings

CHILD_SILENT_S = 15.0
"""A cache user that says nothing for so long hangs in the official client, and is replaced."""
CHILD_END_S = 3.0
_CACHE_USER = "kvberth.bare.engine.cache_user"
_BLOCK_USER = "kvberth.bare.engine.block_user"


@dataclass(slots=True)
class Counts:
    """What /metrics says."""

    connected: bool = False
    stored: int = 0
    lost: int = 0

    def text(self) -> str:
        """Give Prometheus' text form."""
        return (
            f"kvberth_engine_cache_connected {int(self.connected)}\n"
            f"kvberth_engine_cache_stored_total {self.stored}\n"
            f"kvberth_engine_cache_lost_total {self.lost}\n"
        )

    def note(self, what: str) -> None:
        """Count one line of the cache user."""
        self.connected = what in {"connected", "stored"}
        self.stored += what == "stored"
        self.lost += what == "lost"


@dataclass(slots=True)
class Engine:
    """One run of the stand-in."""

    settings: EngineSettings
    counts: Counts = field(default_factory=Counts)
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        """Run until told to end; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        if self.settings.scale != 1.0:
            log(f"every wait is multiplied by {self.settings.scale:g}")
        async with AsyncExitStack() as stack:
            if self.settings.blocks:
                await stack.enter_async_context(self._keeping_blocks())
            if self.settings.socket is None:
                log("cache: none")
                return await self._serve()
            argv = (_CACHE_USER, self.settings.socket, str(self.settings.scale))
            return await self._with_cache(await stack.enter_async_context(await Child.start(argv)))

    @asynccontextmanager
    async def _keeping_blocks(self) -> AsyncIterator[None]:
        """Blocks are kept beside everything else, whether there is a cache for them or not."""
        settings = self.settings
        argv = (_BLOCK_USER, settings.directory, str(settings.blocks), str(settings.scale))
        async with await Child.start(argv) as child:
            telling = asyncio.create_task(_tell(child), name="block user")
            try:
                yield
            finally:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)

    async def _with_cache(self, child: "Child") -> int:
        following = asyncio.create_task(self._follow(child), name="cache user")
        try:
            if not await _first(self.connected, self.stopping, following):
                log("exit 1: the KV cache can't be reached")
                return 1
            return await self._serve()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _serve(self) -> int:
        if self.stopping.is_set():
            return 0
        async with serve_health(self.settings.host, self.settings.port, self.counts.text):
            log(f"serving on {self.settings.host}:{self.settings.port}")
            await self.stopping.wait()
            log(f"told to end; draining for {self.settings.drain_s:g} s")
            await asyncio.sleep(self.settings.drain_s)
        return 0

    async def _follow(self, child: "Child") -> None:
        """Log what the cache user says; return when it gave up at the start, replace it when it hangs later."""
        while True:
            line = await child.line(CHILD_SILENT_S)
            if line is not None:
                log(f"cache: {line}")
                what = line.split(" ", 1)[0]
                self.counts.note(what)
                if what == "connected":
                    self.connected.set()
            elif not self.connected.is_set() and child.ended:
                return
            else:
                log("cache: lost; its user hung or died, and is replaced")
                self.counts.note("lost")
                await child.restart()


class Child:
    """A process that uses the cache."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = (sys.executable, "-m", *argv)
        self._process: asyncio.subprocess.Process

    @classmethod
    async def start(cls, argv: tuple[str, ...]) -> Self:
        """Start a module of ours with its arguments."""
        child = cls(argv)
        await child._start()
        return child

    @property
    def ended(self) -> bool:
        """Whether it has said its last line."""
        assert self._process.stdout is not None
        return self._process.stdout.at_eof()

    async def line(self, timeout_s: float) -> str | None:
        """Give its next line; None when it ended, or said nothing for so long."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._process.stdout.readline()
        except TimeoutError:
            return None
        return line.decode(errors="replace").rstrip() or None

    async def restart(self) -> None:
        """End it by force and start another, at most once a second."""
        await self._kill()
        await asyncio.sleep(1.0)
        await self._start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let it delete its objects and end; by force when it hangs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(CHILD_END_S):
                await self._process.wait()
        except TimeoutError:
            await self._kill()

    async def _start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._argv, stdin=pipe, stdout=pipe)

    async def _kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def _tell(child: Child) -> None:
    """Log what the block user says, and start it anew when it has died."""
    while True:
        line = await child.line(CHILD_SILENT_S)
        if line is not None:
            log(f"blocks: {line}")
        elif child.ended:
            log("blocks: lost; their user died, and is replaced")
            await child.restart()


async def _first(connected: asyncio.Event, stopping: asyncio.Event, following: "asyncio.Task[None]") -> bool:
    """Wait until one of them comes; False when following ended, which is when no daemon answered."""
    waits = [asyncio.create_task(event.wait()) for event in (connected, stopping)]
    try:
        await asyncio.wait([*waits, following], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if following.done():
        following.result()
    return connected.is_set() or stopping.is_set()


def log(text: str) -> None:
    """Write a line to the log, which is standard error."""
    sys.stderr.write(f"engine: {text}\n")
