"""A process without a file descriptor left, as a leak or a low limit makes it."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptors(*, but_one: bool = False) -> Iterator[None]:
    """Let no file, socket or pipe, or just one, be opened by this process; what is open stays open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _lowest_free() + 1 if but_one else 1  # the first one is open; with 0 nobody could poll what is
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _lowest_free() -> int:
    descriptor = os.dup(0)
    os.close(descriptor)
    return descriptor
