"""Runs the loop over one parser in a process of its own: its memory is its own, and its death is a failure like others.

The input that is being read stands in a file, which outlives the process.
"""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.loop import Bounds, Failure, Report

Work = Callable[[str, Bounds, int, Path], Report]
_LENGTH = 8


def apart(work: Work, name: str, bounds: Bounds, seed: int) -> Report:
    """Give what `work` reports of a parser, or the input at which its process died."""
    with (
        tempfile.TemporaryDirectory(prefix="kvb-fuzz-") as folder,
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        note = Path(folder) / "input"
        try:
            return pool.submit(work, name, bounds, seed, note).result()
        except BrokenProcessPool:
            what = "its process died while it read this" if note.exists() else "its process died before the first input"
            return Report(name, failures=[Failure(name, _noted(note), what)])


def noting(path: Path) -> Callable[[bytes], None]:
    """Give what writes each input down before it is read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    return lambda data: _note(file, data)


def _note(file: int, data: bytes) -> None:
    os.pwrite(file, len(data).to_bytes(_LENGTH, "little") + data, 0)


def _noted(path: Path) -> bytes:
    raw = path.read_bytes() if path.exists() else b""
    return raw[_LENGTH:][: int.from_bytes(raw[:_LENGTH], "little")]
