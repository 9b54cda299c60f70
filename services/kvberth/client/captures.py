"""Lets a thread call CUDA while the engine captures a graph: a capture forbids most calls to all threads, and breaks.

So it is by default (mode "global"). A thread whose own mode is "relaxed" is exempt, and what it calls is no part of the
graph. torch can't set that mode, so the driver is asked, which has it for each thread.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""


@contextmanager
def beside_captures() -> Iterator[None]:
    """A block of calls that neither break a capture of another thread's nor are refused because of it."""
    exchange = _exchange()
    mode = ctypes.c_int(RELAXED)
    changed = exchange is not None and exchange(ctypes.byref(mode)) == 0  # now it holds what was before
    try:
        yield
    finally:
        if exchange is not None and changed:
            exchange(ctypes.byref(mode))


@cache
def _exchange() -> Callable[[object], int] | None:
    """The driver's function that swaps the calling thread's mode for a given one; None: there is no such driver."""
    try:
        found = ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_int
    return found
