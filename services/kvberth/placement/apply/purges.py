"""Removes wants that are done from the stream, beside everything else: a plan waits for none of it.

What could not be removed is tried again for ever; meanwhile it says stop, which stays true. A want that is asked for
anew is never removed: whoever says it waits until no removal of it is under way.
"""

import asyncio
from typing import Protocol

import structlog

from kvberth.bus import BusError
from kvberth_schemas.subjects import WantSubject

_log = structlog.stdlib.get_logger(__name__)


class Purger(Protocol):
    """Whoever can remove a want."""

    async def purge(self, subject: WantSubject) -> None:
        """Remove a want's messages. Raises BusError where that takes too long."""
        ...


class Purges:
    """The wants that are to be removed; each stands here once."""

    def __init__(self, purger: Purger, retry_s: float = 5.0) -> None:
        """Nothing is removed before `run`."""
        self._purger = purger
        self._retry_s = retry_s
        self._due: dict[WantSubject, None] = {}
        self._present: WantSubject | None = None
        self._stirred = asyncio.Event()
        self._settled = asyncio.Event()

    def ask(self, subject: WantSubject) -> None:
        """Have a want removed."""
        self._due[subject] = None
        self._stirred.set()

    async def spare(self, subject: WantSubject, within_s: float) -> bool:
        """Have a want not removed; False when its removal was under way and did not end in time."""
        self._due.pop(subject, None)
        try:
            async with asyncio.timeout(within_s):
                while self._present == subject:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            return False
        self._due.pop(subject, None)
        return True

    async def run(self) -> None:
        """Remove one after the other, until cancelled."""
        while True:
            self._stirred.clear()
            for subject in list(self._due):
                if subject in self._due:
                    await self._remove(subject)
            if self._due:
                await asyncio.sleep(self._retry_s)
            else:
                await self._stirred.wait()

    async def _remove(self, subject: WantSubject) -> None:
        self._present = subject
        try:
            await self._purger.purge(subject)
        except BusError as error:
            _log.warning("a want that is done is not removed yet", subject=str(subject), reason=str(error))
        else:
            self._due.pop(subject, None)
        finally:
            self._present = None
            self._settled.set()
