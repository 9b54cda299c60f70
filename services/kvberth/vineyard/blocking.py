"""The client's twin for threads: the same requests, answers and errors, with calls that block.

Meant for bulk work (many creates and deletes) that would keep an event loop busy. It waits in system calls, which
release the interpreter lock, so that a hung daemon stops one thread and nobody else. Never reconnects.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from kvberth.service.shortage import is_own_shortage
from kvberth.vineyard import wire
from kvberth.vineyard.blob import Blob, SharedBlob
from kvberth.vineyard.errors import CannotAsk, ConnectionGone, DaemonHung, ObjectMissing, ProtocolError, VineyardError
from kvberth.vineyard.refusals import check_size, refusal
from kvberth.vineyard.stores import SharedStores
from kvberth.vineyard.stream import BlockingStream
from kvberth.vineyard.wire import InstanceStatus, Location, Registration


class BlockingClient:
    """A registered connection to one vineyardd, for threads; a failure is a VineyardError and comes in `timeout_s`.

    Threads may share it: one request is in flight, the others wait for their turn while their deadlines run.
    """

    registration: Registration

    def __init__(self, stream: BlockingStream) -> None:
        """For `connect`, which is how a client is made."""
        self._stream = stream
        self._stores = SharedStores(stream.path)
        self._lock = threading.Lock()
        self._why_closed: str | None = None

    @classmethod
    def connect(cls, path: str | Path, *, timeout_s: float = 1.0) -> Self:
        """Connects and registers, both within `timeout_s` seconds: the answer to register is what proves a daemon."""
        until = time.monotonic() + timeout_s
        client = cls(BlockingStream.open(str(path), timeout_s))
        try:
            with client._turn(until - time.monotonic()):
                client.registration = wire.registration(client._ask(wire.register_request(), "register_reply"))
        except BaseException:
            client.close()
            raise
        return client

    @property
    def path(self) -> str:
        """The daemon's socket."""
        return self._stream.path

    @property
    def closed(self) -> bool:
        """Whether a failure, or `close`, has ended this connection; then connect anew."""
        return self._why_closed is not None

    def status(self, *, timeout_s: float = 1.0) -> InstanceStatus:
        """Asks the daemon who it is and how full."""
        with self._turn(timeout_s):
            return wire.status(self._ask(wire.status_request(), "instance_status_reply"))

    def create(self, size: int, *, timeout_s: float = 1.0) -> Blob:
        """Makes an unsealed blob of `size` bytes; raises StoreFull. One that is not to be sealed must be deleted."""
        check_size(self._stream.path, size)
        request = wire.create_request(size)
        with self._turn(timeout_s):
            location = wire.created(self._ask(request, "create_buffer_reply"), size)
            try:
                return Blob(location.object_id, self._view(location))
            except CannotAsk:
                self._delete([location.object_id])  # nobody else ever hears of it
                raise

    def seal(self, object_id: int, *, timeout_s: float = 1.0) -> None:
        """Makes a blob visible to all clients; raises ObjectMissing. Sealing twice is no error."""
        request = wire.seal_request(object_id)
        with self._turn(timeout_s):
            self._ask(request, "seal_reply")

    def get(self, object_id: int, *, writable: bool = False, timeout_s: float = 1.0) -> memoryview:
        """Returns the bytes of a sealed blob; raises ObjectMissing, ObjectNotSealed.

        Sealing does not end the right to write: a blob that is a memory of its own kind may be got `writable` again.
        """
        with self._turn(timeout_s):
            view = self._view(self._found(object_id))
        return view if writable else view.toreadonly()

    def share(self, object_id: int, *, timeout_s: float = 1.0) -> SharedBlob:
        """Returns where a sealed blob lies, for another process to map; raises ObjectMissing, ObjectNotSealed."""
        with self._turn(timeout_s):
            location = self._found(object_id)
            self._view(location)
            return self._stores.shared(location)

    def delete(self, object_ids: Sequence[int], *, timeout_s: float = 1.0) -> None:
        """Deletes blobs, sealed or not; missing ones and those that a metadata object still names are passed over."""
        with self._turn(timeout_s):
            self._delete(object_ids)

    def close(self) -> None:
        """Ends the connection, also under another thread's request, which gets ConnectionGone."""
        self._end("closed by this side")
        with self._lock:  # whoever was under way has left: nobody uses the descriptor or the mappings any more
            self._stream.close()
            self._stores.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _turn(self, timeout_s: float) -> Iterator[None]:
        """Waits for this thread's turn and guards the conversation in it, all within the deadline."""
        until = time.monotonic() + timeout_s
        late = f"vineyardd gave no answer within {timeout_s:g} s"
        if not self._lock.acquire(timeout=max(0.0, timeout_s)):
            raise DaemonHung(self._stream.path, late)
        try:
            self._check_open()
            self._stream.until = until
            with self._conversation(late):
                yield
        finally:
            self._lock.release()

    @contextmanager
    def _conversation(self, late: str) -> Iterator[None]:
        """Gives every failure its class and ends the connection, except where the daemon merely refused."""
        path = self._stream.path
        try:
            yield
        except wire.RefusedError as refused:
            raise refusal(path, refused) from None
        except wire.MalformedError as error:
            self._end(f"what answered {error}")
            raise ProtocolError(path, f"what answered {error}") from None
        except TimeoutError:
            self._end("an earlier request was given up before its reply came")
            raise DaemonHung(path, late) from None
        except OSError as error:
            if is_own_shortage(error):
                self._end(f"nobody could be asked here ({error.strerror})")
                raise CannotAsk(path, f"nobody could be asked here ({error.strerror})") from None
            why = self._why_closed or f"the daemon is gone ({error.strerror or error})"
            self._end(why)
            raise ConnectionGone(path, why) from None
        except CannotAsk as error:  # what the daemon sent is lost, and it sends each memory once
            self._end(error.what)
            raise
        except VineyardError:
            raise
        except BaseException:
            self._end("an earlier request was given up before its reply came")
            raise

    def _check_open(self) -> None:
        if self._why_closed is not None:
            raise ConnectionGone(self._stream.path, f"this connection is closed ({self._why_closed}), connect again")

    def _end(self, why: str) -> None:
        """Lets nobody speak on the connection any more; the first reason is kept."""
        self._why_closed = self._why_closed or why
        self._stream.shut()

    def _delete(self, object_ids: Sequence[int]) -> None:
        for request in wire.delete_requests(object_ids):
            self._ask(request, "del_data_reply")

    def _ask(self, request: wire.Json, reply_type: str) -> wire.Json:
        self._stream.send(wire.encode(request))
        length = wire.body_length(self._stream.receive(wire.HEADER_BYTES))
        return wire.decode(self._stream.receive(length), reply_type)

    def _found(self, object_id: int) -> Location:
        location = wire.found(self._ask(wire.get_request(object_id), "get_buffers_reply"), object_id)
        if location is None:
            raise ObjectMissing(self._stream.path, f"there is no blob {object_id}")
        return location

    def _view(self, location: Location) -> memoryview:
        if location.fd_follows:
            self._stores.add(location, self._stream.receive_fd())
        return self._stores.view(location)
