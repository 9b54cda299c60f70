"""What a proof that was given up leaves in the daemon: it is deleted once the daemon comes to it.

An unsealed blob stays for ever and is listed by nobody, so each must be deleted by its id, over a connection to the
very daemon that has it.
"""

import asyncio
from contextlib import suppress

from kvberth.vineyard import Blob, Client, VineyardError

PATIENCE_S = 60.0
"""How long a daemon is waited for."""
_MOST = 8


class Leftovers:
    """The deletions under way, a few at most."""

    def __init__(self) -> None:
        """Nothing is left over yet."""
        self._undoing: dict[asyncio.Task[None], Client] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._undoing)

    @property
    def full(self) -> bool:
        """Whether a daemon owes so many answers that it should be asked for nothing more."""
        return len(self._undoing) >= _MOST

    def holds(self, client: Client) -> bool:
        """Whether a connection is in use here, and closed from here."""
        return client in self._undoing.values()

    def undo(self, client: Client, blob: int | asyncio.Task[Blob]) -> None:
        """Delete a blob, or one that is still being created, over a connection that is closed afterwards."""
        task = asyncio.create_task(_undo(client, blob), name="delete what a proof left over")
        self._undoing[task] = client
        task.add_done_callback(self._undoing.pop)

    async def aclose(self) -> None:
        """Give up what is under way."""
        tasks = [*self._undoing]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _undo(client: Client, blob: int | asyncio.Task[Blob]) -> None:
    try:
        with suppress(VineyardError):  # the daemon ended, and the blob with it; or it hangs for good
            object_id = blob if isinstance(blob, int) else (await blob).object_id
            await client.delete([object_id], timeout_s=PATIENCE_S)
    finally:
        await client.aclose()
