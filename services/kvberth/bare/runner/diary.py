"""Keeps the records on the disk as they are in memory, off the event loop. Decides nothing.

One write at a time, each of a record's newest content. What the disk refuses is tried again: the runner goes on, and
only a later runner would know a little less.
"""

import asyncio
from contextlib import suppress

import structlog

from kvberth.bare.process.store import RecordError, RecordStore
from kvberth.bare.runner.record import Key, Record
from kvberth.service.threads import in_thread

RETRY_S = 1.0

_log = structlog.get_logger(__name__)


class Diary:
    """The pending writes of a record store; `run` does them."""

    def __init__(self, store: RecordStore[Record]) -> None:
        """Nothing is pending."""
        self._store = store
        self._pending: dict[Key, Record] = {}  # bounded: one for each process
        self._writing: Key | None = None
        self._due, self._idle, self._clean = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._clean.set()
        self._refusal = ""

    def note(self, record: Record) -> None:
        """Have a record written soon."""
        self._pending[record.key] = record
        self._clean.clear()
        self._due.set()

    async def hand_over(self, key: Key) -> None:
        """Drop what is pending of a record, and wait for its write if one is under way: its files are the caller's."""
        while self._writing == key:
            await self._idle.wait()
        self._pending.pop(key, None)

    async def flush(self, within_s: float) -> None:
        """Wait until everything is written, but at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._clean.wait()

    async def run(self) -> None:
        """Write what is noted, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            refused = [key for key in list(self._pending) if not await self._write(key)]
            if not self._pending:
                self._clean.set()
            if refused:
                await asyncio.sleep(RETRY_S)
                self._due.set()

    async def _write(self, key: Key) -> bool:
        record = self._pending.pop(key, None)
        if record is None:
            return True
        self._writing = key
        self._idle.clear()
        try:
            await in_thread(lambda: self._store.write(key.stem, record), f"writing the record of {key.stem}")
        except RecordError as error:
            self._pending.setdefault(key, record)
            self._say(str(error))
            return False
        finally:
            self._writing = None
            self._idle.set()
        self._refusal = ""
        return True

    def _say(self, sentence: str) -> None:
        if sentence != self._refusal:  # tried each second, said once
            self._refusal = sentence
            _log.warning(f"{sentence}; it is tried again, and processes go on")
