"""A connection for whoever asks a daemon now and then: opened when it is needed, and anew when it was lost."""

from pathlib import Path

from kvberth.vineyard.client import Client


class KeptClient:
    """At most one connection to one socket. Whoever holds blobs by it must watch the incarnation: it may be another."""

    def __init__(self, path: str | Path) -> None:
        """Connects to nobody yet."""
        self._path = path
        self._client: Client | None = None

    @property
    def open(self) -> Client | None:
        """The connection that is open now, if one is."""
        return self._client if self._client is not None and not self._client.closed else None

    async def client(self, *, timeout_s: float = 1.0) -> Client:
        """Returns the open connection, else a new one; raises a VineyardError within `timeout_s` seconds.

        A lost one is closed first, which has its own time: `take_lost` spares that.
        """
        kept = self.open
        if kept is not None:
            return kept
        await self.aclose()
        self._client = await Client.connect(self._path, timeout_s=timeout_s)
        return self._client

    def give_up(self) -> Client | None:
        """Hands an open connection over to the caller, who closes it; the next call opens another. A lost one stays."""
        given = self.open
        if given is not None:
            self._client = None
        return given

    def take_lost(self) -> Client | None:
        """Hands over a connection that was lost, if that is what is kept: until it is closed it holds memory."""
        if self._client is None or not self._client.closed:
            return None
        lost, self._client = self._client, None
        return lost

    async def aclose(self) -> None:
        """Closes the connection, if there is one; the next call opens another."""
        lost, self._client = self._client, None
        if lost is not None:
            await lost.aclose()
