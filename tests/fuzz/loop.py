"""Feeds a parser with changed inputs for a while, and watches it: exceptions, time per input, memory and descriptors.

An input whose outcome is new is kept to start others from, within a bound, so that an endless run needs no more memory.
"""

import gc
import hashlib
import os
import random
import re
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.fuzz.mutate import Mutator

HANG_S = 10.0
"""Of wall time: an input that takes longer is a hang."""
SLOW_S = 1.0
"""Of CPU time for one input."""
GROWTH_BYTES = 32 * 2**20
"""What the second half of a run may take more than the first."""
MOST_FAILURES = 20
_POOL = 1000
_OUTCOMES = 20_000
_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Parser:
    """One reader of what comes from outside."""

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes], str]
    """Reads an input and says in a word or a sentence what it made of it; whatever it raises is a failure."""
    most_bytes: int = 64 * 1024
    """Longer inputs are cut: limits of their own are tested beside each parser."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that a parser could not take."""

    parser: str
    data: bytes
    what: str

    def keep(self, folder: Path) -> Path:
        """Write the input below a folder, and give its path."""
        place = folder / self.parser / hashlib.sha256(self.data).hexdigest()[:12]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(self.data)
        return place


@dataclass(slots=True)
class Report:
    """What a run over one parser found."""

    parser: str
    inputs: int = 0
    outcomes: int = 0
    slowest_s: float = 0.0
    growth_bytes: int = 0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a run ends: whichever comes first."""

    inputs: int
    seconds: float


class Hang(BaseException):
    """An input took too long; no parser may catch this."""


def fuzz(parser: Parser, bounds: Bounds, seed: int, note: Callable[[bytes], None] = lambda _: None) -> Report:
    """Feed a parser; the seeds themselves come first. `note` is told each input before it is read."""
    mutator = Mutator(random.Random(seed), parser.seeds, parser.most_bytes)
    report, outcomes = Report(parser.name), set[str]()
    ends = time.monotonic() + bounds.seconds
    half: tuple[int, int] | None = None
    with _alarm():
        for data in _inputs(parser, mutator):
            note(data)
            outcome = _feed(parser, data, report)
            report.inputs += 1
            if outcome is not None and outcome not in outcomes and len(outcomes) < _OUTCOMES:
                outcomes.add(outcome)
                if len(outcomes) <= _POOL:
                    mutator.add(data)
            if half is None and (2 * report.inputs >= bounds.inputs or time.monotonic() > ends - bounds.seconds / 2):
                half = (report.inputs, _memory())
            if report.inputs >= bounds.inputs or time.monotonic() > ends or len(report.failures) >= MOST_FAILURES:
                break
    report.outcomes = len(outcomes)
    report.growth_bytes = _memory() - half[1] if half is not None else 0
    if report.growth_bytes > GROWTH_BYTES:
        what = f"memory grew by {report.growth_bytes >> 20} MiB from input {half[0] if half else 0} to {report.inputs}"
        report.failures.append(Failure(parser.name, b"", what))
    return report


def replay(parser: Parser, data: bytes) -> Failure | None:
    """Feed one input, and say whether it fails."""
    report = Report(parser.name)
    with _alarm():
        _feed(parser, data, report)
    return report.failures[0] if report.failures else None


def _inputs(parser: Parser, mutator: Mutator) -> Iterator[bytes]:
    yield from parser.seeds
    while True:
        yield mutator.next()


def _feed(parser: Parser, data: bytes, report: Report) -> str | None:
    before = _lowest_free()
    outcome = _read(parser, data, report)
    if _lowest_free() > before:
        gc.collect()  # what only a cycle of objects holds is not lost
    if _lowest_free() > before:
        report.failures.append(Failure(parser.name, data, "it left a descriptor open"))
    return outcome


def _read(parser: Parser, data: bytes, report: Report) -> str | None:
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    began = time.process_time()
    try:
        outcome = parser.read(data)
    except (Exception, Hang):  # noqa: BLE001 - to find whatever a parser lets out is what this is for
        signal.setitimer(signal.ITIMER_REAL, 0)
        report.failures.append(Failure(parser.name, data, traceback.format_exc(limit=-4)))
        return None
    signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.process_time() - began
    report.slowest_s = max(report.slowest_s, took)
    if took > SLOW_S:
        report.failures.append(Failure(parser.name, data, f"it took {took:.1f} s of CPU for {len(data)} bytes"))
    return _shape(outcome)


def _shape(outcome: str) -> str:
    """An outcome without what differs from input to input: quoted parts and numbers."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|[0-9]+", "#", outcome[:400])[:120]


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(_: int, __: FrameType | None) -> None:
        raise Hang(f"no end within {HANG_S:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _lowest_free() -> int:
    """Give the number that the next descriptor gets: one that stays open takes it, which costs less than to count."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
