"""Ends every recorded process of all nodes, whether or not a runner is there. What `kvberth down` calls.

The runners must have ended before: one that lives would start again what is ended here.
"""

import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvberth.bare.runner import processes, procfs
from kvberth.bare.runner.records import Record, RecordStore, records_directory

KILL_WAIT_S = 10.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A process as its record describes it."""

    store: RecordStore
    record: Record

    @property
    def alive(self) -> bool:
        """Whether somebody holds its lock."""
        return self.store.alive(self.record)

    def send(self, number: signal.Signals) -> None:
        """Signal the process and its group."""
        handle = processes.find(self.record) if self.alive else None
        if handle is not None:
            processes.send(handle, number)

    def kill(self) -> None:
        """Kill the process, and whatever carries its life in the environment."""
        if self.alive:
            self.send(signal.SIGKILL)
            processes.kill_remains(self.record.life)


def end_all(state: Path, grace_s: float) -> list[str]:
    """End the processes of every node: SIGTERM, after `grace_s` seconds SIGKILL; then remove their records.

    Blocks for at most `grace_s` plus ten seconds. Gives a sentence for each process that did not end and for each
    file that is no record; these files stay.
    """
    found, faults = _load(state)
    for recorded in found:
        recorded.send(signal.SIGTERM)
    _wait(found, grace_s)
    deadline = time.monotonic() + KILL_WAIT_S
    while any(recorded.alive for recorded in found) and time.monotonic() < deadline:
        for recorded in found:
            recorded.kill()
        _wait(found, 0.2)
    return faults + [fault for recorded in found if (fault := _finish(recorded))]


def _load(state: Path) -> tuple[list[_Recorded], list[str]]:
    found: list[_Recorded] = []
    faults: list[str] = []
    boot_id = procfs.boot_id()
    for node_directory in sorted((state / "nodes").glob("*")):
        store = RecordStore(records_directory(node_directory))
        records, unreadable = store.load()
        faults += unreadable
        # Pids of another boot mean nothing, but nobody can hold their locks either: these are only removed.
        found += [_Recorded(store, _of_this_boot(record, boot_id)) for record in records.values()]
    return found, faults


def _of_this_boot(record: Record, boot_id: str) -> Record:
    return record if record.boot_id == boot_id else record.model_copy(update={"pid": None, "start_ticks": None})


def _wait(found: Iterable[_Recorded], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(recorded.alive for recorded in found) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _finish(recorded: _Recorded) -> str | None:
    if recorded.alive:
        return f"{recorded.record.key.stem} (pid {recorded.record.pid}) did not end, not even when it was killed"
    try:
        recorded.store.remove(recorded.record.key)
    except OSError as error:
        return f"the record of {recorded.record.key.stem} can't be removed: {error.strerror}"
    return None
