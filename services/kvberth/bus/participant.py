"""Work that is done anew on every session."""

import asyncio
from collections.abc import Sequence

import structlog

from kvberth.bus.background import Background, Work
from kvberth.bus.connection import Connection
from kvberth.bus.errors import BusError
from kvberth.bus.pause import Pause
from kvberth.bus.session import Session

_log = structlog.stdlib.get_logger(__name__)


class Participant(Background):
    """Runs `_work` on every session in turn. An error that is not the bus's own ends the block: none is swallowed."""

    def __init__(self, connection: Connection) -> None:
        """Nothing happens before `async with`."""
        self._connection = connection

    async def _work(self, session: Session) -> None:
        """Work on a session until it is lost; returning or a `BusError` starts it again after a pause."""
        raise NotImplementedError

    def _tasks(self) -> Sequence[Work]:
        return [self._follow]

    async def _follow(self) -> None:
        pause = Pause()
        while True:
            session = await self._connection.session()
            try:
                async with session.lifetime.scope():
                    await self._work(session)
            except BusError as error:
                if not session.lifetime.ended:
                    _log.warning("bus work failed", who=type(self).__name__, error=str(error))
                    await asyncio.sleep(pause.next())
