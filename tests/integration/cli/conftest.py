"""A terminal with a state directory that does not exist yet, and one in which `kvberth up` runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.cli.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "state")


@pytest.fixture
async def running(terminal: Terminal) -> AsyncIterator[Terminal]:
    async with terminal.up():
        yield terminal
