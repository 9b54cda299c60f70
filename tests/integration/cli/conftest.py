"""A terminal with a state directory that does not exist yet, and one that Ctrl-C reaches."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """A shell's job in the background ignores Ctrl-C, and so does all that it starts: these tests may be one."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "state")
