"""Ends recorded processes, whether or not whoever started them lives. Blocking: `kvberth down` and `up` call it.

Whoever would start them again must have ended before.
"""

import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvberth.bare.process import locks, procfs
from kvberth.bare.process.handle import Handle, kill_remains, known, search
from kvberth.bare.process.record import ProcessRecord
from kvberth.bare.process.store import RecordError, RecordStore

KILL_WAIT_S = 10.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Recorded:
    """A process as its record describes it."""

    store: RecordStore[ProcessRecord]
    stem: str
    record: ProcessRecord
    boot_id: str
    """Of this boot."""

    @property
    def alive(self) -> bool:
        """Whether somebody holds its lock."""
        return self.store.alive(self.stem)

    def find(self) -> Handle | None:
        """Find it, by its pid or by the life in its environment."""
        return known(self.record, self.boot_id) or search(self.record.life)

    def send(self, number: signal.Signals) -> None:
        """Signal the process and its group."""
        handle = self.find() if self.alive else None
        if handle is not None:
            handle.send(number)

    def kill(self) -> None:
        """Kill the process, and whatever carries its life in the environment."""
        if self.alive:
            self.send(signal.SIGKILL)
            kill_remains(self.record.life)


def recorded(directory: Path) -> list[Recorded]:
    """Give the processes that a directory has readable records of, living or not."""
    store = RecordStore(directory, ProcessRecord)
    boot_id = procfs.boot_id()
    return [Recorded(store, stem, record, boot_id) for stem, record in store.load()[0].items()]


def end(found: Sequence[Recorded], grace_s: float) -> list[str]:
    """End processes: SIGTERM, after `grace_s` seconds SIGKILL; give a sentence for each that lives on.

    Blocks for at most `grace_s` plus ten seconds.
    """
    for one in found:
        one.send(signal.SIGTERM)
    _wait(found, grace_s)
    deadline = time.monotonic() + KILL_WAIT_S
    while any(one.alive for one in found) and time.monotonic() < deadline:
        for one in found:
            one.kill()
        _wait(found, 0.2)
    return [_lives_on(one) for one in found if one.alive]


def forget(found: Iterable[Recorded]) -> list[str]:
    """Remove the records of what has ended; give a sentence for each that can't be removed."""
    faults = []
    for one in found:
        if not one.alive:
            try:
                one.store.remove(one.stem)
            except RecordError as error:
                faults.append(str(error))
    return faults


def unrecorded(directory: Path) -> list[str]:
    """Give a sentence for each lock that is held without a readable record: nothing here may end its holder."""
    store = RecordStore(directory, ProcessRecord)
    known_stems = store.load()[0].keys()
    return [
        f"the lock {path} is held by {locks.who_holds(path)}, of which there is no record; end it yourself"
        for path in store.held_locks()
        if path.stem not in known_stems
    ]


def _lives_on(one: Recorded) -> str:
    handle = one.find()
    who = f"pid {handle.pid}" if handle else locks.who_holds(one.store.lock(one.stem))
    return f"{one.stem} ({who}) did not end, not even when it was killed"


def _wait(found: Iterable[Recorded], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(one.alive for one in found) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
