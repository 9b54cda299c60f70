"""What proofs leave: canaries of those given up, deleted once the daemon comes to it, and the memory of the dead.

An unsealed blob stays for ever and is listed by nobody, so each must be deleted by its id, over a connection to the
very daemon that has it. Whoever mapped a daemon's memory keeps all of it alive after the daemon's death.
"""

import asyncio
from contextlib import suppress

from kvberth.vineyard import Blob, Client, VineyardError

PATIENCE_S = 60.0
"""How long a daemon is waited for."""
_MOST = 8


class Leftovers:
    """The deletions under way, a few at most, and the connections that are being closed."""

    def __init__(self) -> None:
        """Nothing is left over yet."""
        self._undoing: dict[asyncio.Task[None], Client] = {}
        self._closing: dict[asyncio.Task[None], Client] = {}

    @property
    def count(self) -> int:
        """How many canaries wait for their deletion."""
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

    def let_go(self, client: Client) -> None:
        """Close a connection that was lost, while proofs go on: to free a dead daemon's memory may take seconds."""
        task = asyncio.create_task(client.aclose(), name="let the memory of a lost daemon go")
        self._closing[task] = client
        task.add_done_callback(self._closing.pop)

    async def aclose(self) -> None:
        """Give up what is under way."""
        left = {**self._undoing, **self._closing}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        for client in left.values():
            await client.aclose()  # a task that was cancelled before it began has closed nothing


async def _undo(client: Client, blob: int | asyncio.Task[Blob]) -> None:
    try:
        with suppress(VineyardError):  # the daemon ended, and the blob with it; or it hangs for good
            object_id = blob if isinstance(blob, int) else (await blob).object_id
            await client.delete([object_id], timeout_s=PATIENCE_S)
    finally:
        await client.aclose()
