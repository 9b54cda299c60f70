"""The worker's thread: finds the daemon, serves its store for as long as it lives, then the next one's.

It alone touches the store and the socket. It sleeps when it has done what there is, and is woken by a byte: by a client
that has committed while it slept, or by the daemon's answer. Others see it by `snapshot`, and end it by `close`.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from kvberth.store import control, locks
from kvberth.store.control import Ask, Bye, Done, Hello, Message, Register, Told, Wait, Wake
from kvberth.store.errors import EpochEnded, Malformed, StoreError, StoreInUse, mapping_clients
from kvberth.store.remains import Remains
from kvberth.store.vineyard_memory import VineyardMemory, epoch_at
from kvberth.transfer_worker.listener import Connection, Listener, malformed
from kvberth.transfer_worker.moment import Snapshot
from kvberth.transfer_worker.prover import Prover
from kvberth.transfer_worker.serving import Serving, ServingSettings, Totals
from kvberth.transfer_worker.snapshot import snapshot_of
from kvberth.vineyard import SharedBlob, VineyardError

SLEEP_S = 0.05
"""The worker sleeps so long at most; it is woken when a client has committed or the daemon has answered."""
_IDLE_S = 0.2
"""The same while nobody has committed for a second."""
_IDLE_NS = 1_000_000_000
_POLL_S = 0.001
"""Between two looks while the prover's thread asks the daemon, which wakes nobody."""
_TEND_NS = 50_000_000
_DEAD_NS = 200_000_000
_READS_NS = 1_000_000_000
_RETRY_S = 0.2

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the thread needs to know. `open_store` finds or makes the store of the daemon that lives now."""

    directory: Path
    budget: int
    grant_ns: int
    scrub_bytes_s: int
    shard_wait_ns: int
    open_store: Callable[[], VineyardMemory]

    @property
    def daemon(self) -> Path:
        return self.directory / "vineyard.sock"


class Worker:
    """The thread; `start`, then `close`."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kvberth transfer worker")
        self._totals = Totals()
        self._remains = Remains(b"", [])
        self.snapshot = Snapshot(complaint="The worker has just started.")
        self.failed: BaseException | None = None
        """Why the thread ended by itself, which it never should."""

    def start(self) -> None:
        """Binds the socket, so that whoever connects is answered from now on; raises OSError."""
        locks.make_clients(self._settings.directory)
        self._listener = Listener(self._settings.directory / control.SOCKET_NAME)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread within a second or two; what is published stays."""
        self._closing.set()
        self._thread.join()

    # --- between epochs -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        _never_preempt()
        try:
            while not self._closing.is_set():
                held = self._find()
                if held is not None:
                    with held:
                        self._serve(held)
                    del held
        except BaseException as error:  # noqa: BLE001 -- a thread's last word; whoever started it tells it
            self.failed = error
        finally:
            self._listener.close()
            self._remains.close()

    def _find(self) -> VineyardMemory | None:
        """The store of the daemon that lives now; None: not yet. The memory of old clients must be gone first."""
        try:
            epoch = epoch_at(self._settings.daemon)
            waited_for = locks.others_held(self._settings.directory, epoch)
            if not waited_for:
                self._clear_away(epoch)
                held = self._settings.open_store()
                _log.info("the store is open", epoch=epoch.hex(), made=held.made)
                return held
            self._wait(f"Waiting for {mapping_clients(len(waited_for))} an earlier store.", tuple(waited_for))
        except StoreInUse as error:
            self._wait(f"{error}.", error.clients)
        except (VineyardError, StoreError) as error:
            self._wait(f"There is no store: {error}.", ())
        return None

    def _clear_away(self, epoch: bytes) -> None:
        """Frees the memory of the last store before the next one is touched, unless its daemon lives."""
        if self._remains.epoch != epoch:
            self._remains.free()
        self._remains.close()

    def _wait(self, complaint: str, waited_for: tuple[str, ...]) -> None:
        if complaint != self.snapshot.complaint:
            _log.warning(complaint, clients=list(waited_for))
        self.snapshot = Snapshot(complaint=complaint, waiting_for=waited_for)
        for connection in self._listener.wait(_RETRY_S):
            for message in self._heard(connection):
                if isinstance(message, Hello):
                    connection.send(Wait(_named(waited_for, message)))
                elif isinstance(message, Ask):
                    connection.send(_told(complaint))
                connection.open = False
            self._end_closed(connection)

    # --- one epoch ----------------------------------------------------------------------------------------------------

    def _serve(self, held: VineyardMemory) -> None:
        settings = self._settings
        try:
            shared = held.share()
        except VineyardError as error:
            self._wait(f"There is no store: {error}.", ())
            return
        prover = Prover(held.check, held.question)
        try:
            told = ServingSettings(
                settings.directory, settings.budget, settings.grant_ns, settings.scrub_bytes_s, settings.shard_wait_ns
            )
            serving = Serving(held.memory, told, self._totals)
            _Epoch(serving, self._listener, prover, shared, self._show).run(self._closing)
        except EpochEnded as error:  # found by the prover in the middle of a turn, or by an earlier worker
            self._wait(f"{error}.", ())
        finally:
            self._listener.watch(None)
            prover.close()
            self._remains.close()
            self._remains = Remains(held.memory.superblock.epoch, shared)
            for connection in list(self._listener.connections):
                self._listener.end(connection)
        if prover.ended:
            _log.warning("the epoch is over", why=prover.ended)

    def _show(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def _heard(self, connection: Connection) -> list[Message]:
        try:
            return connection.receive()
        except Malformed as error:
            connection.send(malformed(error))
            connection.open = False
            return []

    def _end_closed(self, connection: Connection) -> None:
        if not connection.open:
            self._listener.end(connection)


class _Epoch:
    """The turns of one epoch."""

    def __init__(
        self, serving: Serving, listener: Listener, prover: Prover, shared: list[SharedBlob],
        show: Callable[[Snapshot], None],
    ) -> None:  # fmt: skip
        self._serving = serving
        self._listener = listener
        self._prover = prover
        self._show = show
        self._memories, self._blobs = _laid_out(shared)
        self._tended = self._looked = self._noted = self._busy = 0
        self._worked = True

    def run(self, closing: threading.Event) -> None:
        """Until the daemon is gone or the worker is to end. Raises what the prover failed with."""
        while not closing.is_set() and self._prover.ended is None:
            if self._prover.failed is not None:
                raise self._prover.failed
            for connection in self._listener.wait(self._pause()):
                self._hear(connection)
            self._serving.wake()
            worked, bad = self._serving.turn(self._answer)  # the daemon is asked first, and slots are found meanwhile
            now = time.monotonic_ns()
            self._busy = now if worked else self._busy
            self._cut_off(bad)
            for client in self._serving.sleepers():
                self._ring(client)
            self._tend(now)
            self._worked = worked

    def _answer(self) -> None:
        """Gives the receipts that may be given, and asks the daemon for the others."""
        self._prover.hear()
        if self._serving.answers:
            self._serving.answer(self._prover.proved_ns)
        if self._serving.answers:
            self._prover.ask()

    def _pause(self) -> float:
        standing = self._prover.standing
        self._listener.watch(standing)
        if self._worked or not self._serving.may_sleep():
            return 0.0
        if self._serving.answers and standing is None:
            return _POLL_S
        return SLEEP_S if time.monotonic_ns() - self._busy < _IDLE_NS else _IDLE_S

    def _ring(self, client: bytes) -> None:
        for connection in self._listener.connections:
            if connection.client == client:
                connection.ring()

    def _tend(self, now: int) -> None:
        if now - self._tended >= _TEND_NS:
            self._tended = now
            self._serving.tend()
            self._cut_off(self._serving.divide())
            self._show(replace(snapshot_of(self._serving), complaint=self._prover.complaint))
        if now - self._looked >= _DEAD_NS:
            self._looked = now
            for client in self._serving.look_for_dead():
                self._hang_up(client)
        if now - self._noted >= _READS_NS:
            self._noted = now
            self._serving.note_reads()

    def _hear(self, connection: Connection) -> None:
        if connection not in self._listener.connections:
            return  # it was ended in this turn, by another one's hello
        try:
            for message in connection.receive():
                self._handle(connection, message)
        except Malformed as error:
            self._refuse(connection, error)
        if not connection.open:
            self._end(connection)

    def _handle(self, connection: Connection, message: Message) -> None:
        match message, connection.client:
            case Hello(), None:
                self._greet(connection, message)
            case Register(), bytes() as client:
                connection.send(self._serving.register(client, message))
            case Done(), bytes() as client:
                self._serving.done(client, message)
            case Ask(), _:
                connection.send(_told(self._prover.complaint))
            case Bye(), _:
                connection.open = False
            case Wake(), _:
                pass
            case _:
                raise Malformed(f"{type(message).__name__} is not what a client says at this moment")

    def _greet(self, connection: Connection, hello: Hello) -> None:
        self._hang_up(hello.client)
        answer = self._serving.greet(hello)
        if isinstance(answer, control.Welcome):
            connection.client = hello.client
            answer = replace(answer, maps=tuple(self._memories.values()), blobs=self._blobs)
            connection.send(answer, tuple(self._memories))
        else:
            connection.send(answer)
            connection.open = False

    def _hang_up(self, client: bytes) -> None:
        for connection in list(self._listener.connections):
            if connection.client == client:
                self._listener.end(connection)

    def _cut_off(self, bad: list[tuple[bytes, Malformed]]) -> None:
        """Ends the connections of clients that wrote nonsense; nobody else is touched."""
        for client, error in bad:
            for connection in list(self._listener.connections):
                if connection.client == client:
                    self._refuse(connection, error)
                    self._end(connection)

    def _refuse(self, connection: Connection, error: Malformed) -> None:
        connection.send(malformed(error))
        connection.open = False
        self._serving.refuse("malformed", str(error))

    def _end(self, connection: Connection) -> None:
        client = connection.client
        self._listener.end(connection)
        if client is not None:
            self._serving.lost(client)


def _never_preempt() -> None:
    """Has this thread's wake-ups not end the turn of whoever runs: that is the engine's copying, which has woken it."""
    with contextlib.suppress(OSError):  # forbidden here: slower, no fault
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _named(waited_for: tuple[str, ...], hello: Hello) -> tuple[str, ...]:
    """As many names as a message holds; the one who asks must find its own, by which it leaves."""
    own = f"{hello.epoch.hex()}.{hello.client.hex()}"
    return tuple(sorted(waited_for, key=lambda name: name != own)[:64])


def _told(complaint: str | None) -> Told:
    return Told((complaint or "")[:1000])


def _laid_out(shared: list[SharedBlob]) -> tuple[dict[int, int], tuple[tuple[int, int, int], ...]]:
    """Each memory once, by its descriptor, with its length; and where the blobs lie in them."""
    memories: dict[tuple[int, int], int] = {}
    lengths: dict[int, int] = {}
    blobs = []
    for blob in shared:
        found = os.fstat(blob.fd)
        fd = memories.setdefault((found.st_dev, found.st_ino), blob.fd)
        lengths[fd] = blob.map_bytes
        blobs.append((list(lengths).index(fd), blob.offset, blob.size))
    return lengths, tuple(blobs)
