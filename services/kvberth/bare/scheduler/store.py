"""The scheduler's state directory: one JSON file per manifest, pod and node, a counter, and a lock.

Everything is on disk before anybody hears of it. A file that can't be read is set aside and said, never fatal.
Blocking: call `commit` off the event loop.
"""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvberth.bare.scheduler.files import remove_drafts, set_aside
from kvberth.bare.scheduler.records import ManifestRecord, NodeRecord, PodRecord, Record
from kvberth.bare.scheduler.shape import shape_of
from kvberth.bare.scheduler.state import WORKLOAD_KINDS, State
from kvberth.service import DirectoryLock
from kvberth.service.files import sync_directories, write_all, write_whole
from kvberth.service.lock import take
from kvberth_schemas import names

_VERSIONS_AHEAD: Final = 1000
"""Resource versions are reserved on disk in blocks, so that a change costs no second file."""
_VERSIONS_SKIPPED: Final = 1_000_000
"""How far versions jump when the counter was lost."""
_FOLDERS: Final[dict[str, type[Record]]] = {"manifests": ManifestRecord, "pods": PodRecord, "nodes": NodeRecord}

K = TypeVar("K")
R = TypeVar("R", bound=Record)


class _Counter(BaseModel):
    model_config = ConfigDict(frozen=True)

    term: int = Field(ge=1)
    reserved: int = Field(ge=0)


class Store:
    """The open state directory of one scheduler; `state` is what it held at the start."""

    def __init__(self, directory: Path, now_s: float) -> None:
        """Take the lock, load everything, count this start. `now_s`: seconds since the epoch.

        Raises HeldError when another scheduler holds the lock, OSError when the directory can't be used.
        """
        self._directory = directory
        self._busy = threading.Lock()
        self._lock = take(
            DirectoryLock(directory / "lock", "scheduler", "end it, or give this one another KVBERTH_STATE")
        )
        self._problems: list[str] = []
        for folder in _FOLDERS:
            (directory / folder).mkdir(exist_ok=True)
            remove_drafts(directory / folder)
        self.state = self._load()
        self.term, self._version = self._start(int(now_s))
        self._reserved = self._version
        self._reserve(0)

    @property
    def directory(self) -> Path:
        """Where everything lies."""
        return self._directory

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence per file that could not be read."""
        return tuple(self._problems)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lock back, once a commit that runs in a thread has ended."""
        with self._busy:
            self._lock.close()

    def next_version(self) -> int:
        """Return a resource version above all earlier ones, those of earlier starts included.

        Writes nothing: a commit has reserved one for each node of its state, for what is said about it afterwards.
        """
        if self._version >= self._reserved:
            raise RuntimeError("more resource versions were asked for than the last commit has reserved")
        self._version += 1
        return self._version

    def commit(self, old: State, new: State) -> State:
        """Write what differs and return the state as stored, with its new resource versions.

        Additions and changes are written before anything is removed, so that a kill in between loses nothing.
        Raises OSError, and then the directory is as it was.
        """
        with self._busy:
            self._reserve(len(new.manifests) + len(new.pods) + 2 * len(new.nodes))
            stamped = State(
                self._stamp(old.manifests, new.manifests),
                self._stamp(old.pods, new.pods),
                self._stamp(old.nodes, new.nodes),
            )
            self._write(dict(self._paths(old)), dict(self._paths(stamped)))
            return stamped

    def _write(self, before: Mapping[Path, Record], after: Mapping[Path, Record]) -> None:
        written = {path: record for path, record in after.items() if before.get(path) is not record}
        removed = [path for path in before if path not in after]
        write_all({path: record.model_dump_json(by_alias=True) for path, record in written.items()})
        for path in removed:
            path.unlink(missing_ok=True)
        sync_directories(path.parent for path in (*written, *removed))

    def _stamp(self, old: Mapping[K, R], new: Mapping[K, R]) -> dict[K, R]:
        return {key: self._stamped(old.get(key), record) for key, record in new.items()}

    def _stamped(self, before: R | None, record: R) -> R:
        if before is record or (before is not None and before == record):
            return before
        return record.model_copy(update={"resource_version": self.next_version()})

    def _paths(self, state: State) -> Iterator[tuple[Path, Record]]:
        for key, manifest in state.manifests.items():
            yield self._directory / "manifests" / _file_name(*key), manifest
        for uid, pod in state.pods.items():
            yield self._directory / "pods" / _file_name(uid), pod
        for name, node in state.nodes.items():
            yield self._directory / "nodes" / _file_name(name), node

    def _load(self) -> State:
        state = State()
        records = [
            record
            for folder, model in _FOLDERS.items()
            for path in sorted((self._directory / folder).glob("*.json"))
            if (record := self._read(path, model)) is not None
        ]
        return state.put(*records)

    def _read(self, path: Path, model: type[R]) -> R | None:
        try:
            record = model.model_validate_json(path.read_bytes())
            if isinstance(record, ManifestRecord) and record.kind in WORKLOAD_KINDS:
                shape_of(record.document)  # an earlier version may have let in what this one can't turn into pods
        except (ValidationError, OSError) as error:
            self._set_aside(path, error)
            return None
        return record

    def _set_aside(self, path: Path, error: Exception) -> None:
        reason = str(error.errors()[0]["msg"]) if isinstance(error, ValidationError) else str(error)
        kept = set_aside(path)
        self._problems.append(f"{path} can't be read ({reason}); it is kept as {kept.name} and goes on without it.")

    def _start(self, now_s: int) -> tuple[int, int]:
        """Return this start's term and the last version that may have been used.

        Without a counter the clock stands in for the number of starts: on a bus that remembers earlier terms a small
        number would be taken for a deposed scheduler.
        """
        path = self._directory / "counter.json"
        counter = self._read(path, _CounterRecord) if path.exists() else None
        if counter is not None:
            return counter.counter.term + 1, counter.counter.reserved
        records = (*self.state.manifests.values(), *self.state.pods.values(), *self.state.nodes.values())
        last = max((record.resource_version for record in records), default=-_VERSIONS_SKIPPED)
        return now_s, last + _VERSIONS_SKIPPED

    def _reserve(self, needed: int) -> None:
        """Be sure that so many more versions can be given without a write."""
        if self._version + needed < self._reserved:
            return
        reserved = self._version + needed + _VERSIONS_AHEAD
        record = _CounterRecord(counter=_Counter(term=self.term, reserved=reserved))
        write_whole(self._directory / "counter.json", record.model_dump_json())
        sync_directories([self._directory])
        self._reserved = reserved


class _CounterRecord(Record):
    counter: _Counter


def _file_name(*parts: str) -> str:
    """A name that people can read and that is short whatever the parts are; the digest makes it unique."""
    readable = "-".join(names.encode(part) for part in parts)[:100]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    return f"{readable}.{digest}.json"


def kept_manifests(directory: Path) -> list[str]:
    """Name the manifests in a scheduler's state directory, without its lock; unreadable files are left out."""
    kept = []
    for path in sorted((directory / "manifests").glob("*.json")):
        try:
            record = ManifestRecord.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue
        if record.gone is None:
            kept.append(f"{record.kind} {record.namespace}/{record.name}")
    return kept
