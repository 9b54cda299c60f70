"""Fills the memory of caches to the last byte, and frees it again, on the machine that they are on."""

from collections.abc import AsyncIterator
from pathlib import Path

from kvberth.scenario.backend.probes import SOCKET
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format.verbs import Filled
from kvberth.vineyard import Client, StoreFull, VineyardError

CALL_WITHIN_S = 5.0


class Fillings:
    """The blobs that a scenario put into caches, by socket; they end with their daemons."""

    def __init__(self) -> None:
        """Nothing is filled yet."""
        self._blobs: dict[Path, list[int]] = {}

    async def fill(self, what: Filled, root: Path) -> str:
        """Take all the memory that is left. Raises ScenarioError."""
        path = _path(what, root)
        blobs = self._blobs.setdefault(path, [])
        try:
            async with await Client.connect(path, timeout_s=CALL_WITHIN_S) as client:
                status = await client.status(timeout_s=CALL_WITHIN_S)
                async for blob in _taken(client, status.memory_limit):
                    blobs.append(blob)
        except VineyardError as error:
            raise ScenarioError(f"{what} can't be filled: {error}") from error
        return f"{len(blobs)} blobs"

    async def free(self, what: Filled, root: Path) -> str:
        """Give it back. Raises ScenarioError."""
        path = _path(what, root)
        if path not in self._blobs:
            raise ScenarioError(f"{what} was not filled; 'free' ends a 'fill'")
        try:
            async with await Client.connect(path, timeout_s=CALL_WITHIN_S) as client:
                await client.delete(self._blobs.pop(path), timeout_s=CALL_WITHIN_S)
        except VineyardError as error:
            raise ScenarioError(f"{what} can't be freed: {error}") from error
        return "there is room again"


async def _taken(client: Client, limit: int) -> AsyncIterator[int]:
    """Make blobs that are half as large each time that none fits any more; nothing is written into them."""
    size = limit
    while size:
        try:
            yield (await client.create(size, timeout_s=CALL_WITHIN_S)).object_id
        except StoreFull:
            size //= 2


def _path(what: Filled, root: Path) -> Path:
    return root / what.namespace / what.kvcache / SOCKET
