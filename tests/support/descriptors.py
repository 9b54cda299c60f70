"""Counts this process's open file descriptors, for tests that nothing leaks."""

import gc
from pathlib import Path


def open_descriptors() -> int:
    """How many descriptors are open once what nobody holds is collected."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
