"""Runs `kvberth status` for a story, one after the other while somebody waits for what it prints."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from kvberth.scenario.facts import Printed

STATUS_WITHIN_S = 15.0
_MOST = 200
_WIDE = "300"
"""Columns of a terminal in which no line is folded."""


async def printed(arguments: tuple[str, ...], env: Mapping[str, str], within_s: float = STATUS_WITHIN_S) -> str:
    """Run a `kvberth` command and give all that it prints, or why it printed nothing."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kvberth.cli", *arguments),
        env={**env, "COLUMNS": _WIDE},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        process_group=0,  # Ctrl-C is not for it; in a session of its own it would not share what favour this one has
    )
    try:
        async with asyncio.timeout(within_s):
            return (await process.communicate())[0].decode(errors="replace")
    except TimeoutError:
        return f"'kvberth {' '.join(arguments)}' did not end within {within_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class StatusAsked:
    """What was printed so far; at most one command runs at a time."""

    def __init__(self, run: Callable[[], Awaitable[str]]) -> None:
        """`run` gives the command and what it printed."""
        self._give = run
        self._running: asyncio.Task[None] | None = None
        self.printed: list[Printed] = []

    def ask(self) -> None:
        """Give the command, unless it runs. Raises OSError where the last one could not be given."""
        if self._running is None or self._running.done():
            if self._running is not None and not self._running.cancelled():
                self._running.result()
            self._running = asyncio.create_task(self._run(), name="kvberth status")

    async def close(self) -> None:
        """End the one that runs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        began = datetime.now(UTC)
        text = await self._give()
        self.printed = [*self.printed[1 - _MOST :], Printed(began, text)]
