"""The client for an event loop: what can be asked of a vineyardd, each request with its own deadline.

One request is in flight per connection; the others wait for their turn, and their deadlines run meanwhile. A request
that ends without its whole reply (deadline, cancellation, nonsense) closes the connection, because nobody could tell
its late reply from the next one. A refusal by the daemon (full, missing, not sealed) leaves it open. It never
reconnects; `KeptClient` does.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kvberth.vineyard import wire
from kvberth.vineyard.blob import Blob
from kvberth.vineyard.connection import Connection
from kvberth.vineyard.errors import CannotAsk, ConnectionGone, DaemonHung, ObjectMissing, ProtocolError, VineyardError
from kvberth.vineyard.refusals import check_size, refusal
from kvberth.vineyard.stores import SharedStores
from kvberth.vineyard.wire import InstanceStatus, Location, Registration


class Client:
    """A registered connection to one vineyardd. A failure is a VineyardError and comes within `timeout_s` seconds."""

    registration: Registration

    def __init__(self, connection: Connection) -> None:
        """For `connect`, which is how a client is made."""
        self._connection = connection
        self._stores = SharedStores(connection.path)
        self._lock = asyncio.Lock()

    @classmethod
    async def connect(cls, path: str | Path, *, timeout_s: float = 1.0) -> Self:
        """Connects and registers, both within `timeout_s` seconds: the answer to register is what proves a daemon."""
        try:
            async with asyncio.timeout(timeout_s):
                client = cls(await Connection.open(str(path)))
                await client._register(timeout_s)
                return client
        except TimeoutError:
            raise DaemonHung(str(path), f"no vineyardd answered here within {timeout_s:g} s") from None

    @property
    def closed(self) -> bool:
        """Whether the daemon, a failure or `aclose` has ended this connection; then connect anew."""
        return self._connection.closed.is_set()

    @property
    def ended(self) -> bool:
        """Whether it was the daemon that closed this connection, as its end does."""
        return self._connection.ended

    async def status(self, *, timeout_s: float = 1.0) -> InstanceStatus:
        """Asks the daemon who it is and how full."""
        async with self._turn(timeout_s):
            return wire.status(await self._ask(wire.status_request(), "instance_status_reply"))

    async def create(self, size: int, *, timeout_s: float = 1.0) -> Blob:
        """Makes an unsealed blob of `size` bytes; raises StoreFull.

        The daemon keeps an unsealed blob for ever, invisible to everybody: delete it if it will not be sealed. One
        whose reply was lost (deadline, cancellation) is lost until the daemon restarts.
        """
        check_size(self._connection.path, size)
        request = wire.create_request(size)
        async with self._turn(timeout_s):
            location = wire.created(await self._ask(request, "create_buffer_reply"), size)
            try:
                return Blob(location.object_id, await self._view(location))
            except CannotAsk:
                await self._delete([location.object_id])  # nobody else ever hears of it
                raise

    async def seal(self, object_id: int, *, timeout_s: float = 1.0) -> None:
        """Makes a blob visible to all clients; raises ObjectMissing. Sealing twice is no error."""
        request = wire.seal_request(object_id)
        async with self._turn(timeout_s):
            await self._ask(request, "seal_reply")

    async def get(self, object_id: int, *, timeout_s: float = 1.0) -> memoryview:
        """Returns the read-only bytes of a sealed blob; raises ObjectMissing, ObjectNotSealed.

        The daemon overwrites these bytes when anybody deletes the blob, and they outlive the daemon and this client.
        """
        request = wire.get_request(object_id)
        async with self._turn(timeout_s):
            location = wire.found(await self._ask(request, "get_buffers_reply"), object_id)
            view = None if location is None else await self._view(location)
        if view is None:
            raise ObjectMissing(self._connection.path, f"there is no blob {object_id}")
        return view.toreadonly()

    async def delete(self, object_ids: Sequence[int], *, timeout_s: float = 1.0) -> None:
        """Deletes blobs, sealed or not; missing ones and those that a metadata object still names are passed over."""
        async with self._turn(timeout_s):
            await self._delete(object_ids)

    async def wait_closed(self) -> None:
        """Returns when the connection is closed, at once when the daemon dies; disturbs no request."""
        await self._connection.closed.wait()

    async def aclose(self) -> None:
        """Closes the connection and unmaps what nobody looks at; a request in flight gets ConnectionGone.

        Of a connection that was lost this may take seconds: the daemon's whole memory may be left to us alone.
        """
        lost = self.closed
        self._connection.close(ConnectionGone, "closed by this side")
        if lost and self._stores.mapped:
            await asyncio.to_thread(self._stores.close)  # to free it took a fifth of a second for each GiB
        else:
            self._stores.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def _turn(self, timeout_s: float) -> AsyncIterator[None]:
        """Waits for this caller's turn and guards the conversation in it, all within the deadline."""
        try:
            async with asyncio.timeout(timeout_s), self._lock, self._conversation():
                yield
        except TimeoutError:
            raise DaemonHung(self._connection.path, f"vineyardd gave no answer within {timeout_s:g} s") from None

    @asynccontextmanager
    async def _conversation(self) -> AsyncIterator[None]:
        """Gives every failure its class and closes the connection, except where the daemon merely refused."""
        connection = self._connection
        try:
            try:
                yield
            except wire.RefusedError as refused:
                connection.finish()
                raise refusal(connection.path, refused) from None
            connection.finish()
        except wire.MalformedError as error:
            connection.close(ProtocolError, f"what answered {error}")
            raise ProtocolError(connection.path, f"what answered {error}") from None
        except CannotAsk as error:  # what the daemon sent is lost, and it sends each memory once
            connection.close(ConnectionGone, error.what)
            raise
        except VineyardError:
            raise
        except BaseException:
            connection.close(ConnectionGone, "an earlier request was given up before its reply came")
            raise

    async def _register(self, timeout_s: float) -> None:
        try:
            async with self._turn(timeout_s):
                self.registration = wire.registration(await self._ask(wire.register_request(), "register_reply"))
        except BaseException:
            self._connection.close(ConnectionGone, "registering failed")
            raise

    async def _delete(self, object_ids: Sequence[int]) -> None:
        for request in wire.delete_requests(object_ids):
            await self._ask(request, "del_data_reply")

    async def _ask(self, request: wire.Json, reply_type: str) -> wire.Json:
        self._connection.send(wire.encode(request))
        return wire.decode(await self._connection.receive_frame(), reply_type)

    async def _view(self, location: Location) -> memoryview:
        if location.fd_follows:
            self._stores.add(location, await self._connection.receive_fd())
        self._connection.raise_if_closed()  # closed in the meantime, the memories are no longer mapped
        return self._stores.view(location)


async def probe(path: str | Path, *, timeout_s: float) -> tuple[Registration, InstanceStatus]:
    """Asks a daemon once who it is, within `timeout_s` seconds over all, and leaves."""
    try:
        async with asyncio.timeout(timeout_s), await Client.connect(path, timeout_s=timeout_s) as client:
            return client.registration, await client.status(timeout_s=timeout_s)
    except TimeoutError:
        raise DaemonHung(str(path), f"vineyardd gave no answer within {timeout_s:g} s") from None
