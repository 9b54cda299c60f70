"""Ends running blocks from outside: what a lost connection or a recreated stream does to the work on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kvberth.bus.errors import BusError


class Lifetime:
    """Something that ends once; blocks in its scope are then cancelled at once and raise `Ended`."""

    class Ended(BusError):  # noqa: N818 - reads as what happened
        """The lifetime ended; the message says why."""

    def __init__(self) -> None:
        """Alive until `end`."""
        self.why: str | None = None
        self._scopes: set[asyncio.Timeout] = set()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.why is not None

    def end(self, why: str) -> None:
        """End every block in the scope; only the first reason counts. For the loop's own thread."""
        if self.why is not None:
            return
        self.why = why
        for scope in self._scopes:
            scope.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        """Run a block that must not outlive this.

        Raises:
            Ended: it was over already, or ended while the block ran.
        """
        if self.why is not None:
            raise Lifetime.Ended(self.why)
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    yield
                finally:
                    self._scopes.discard(scope)
        except TimeoutError:
            if scope.expired() and self.why is not None:
                raise Lifetime.Ended(self.why) from None
            raise
