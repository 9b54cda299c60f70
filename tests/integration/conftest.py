"""A vineyardd of its own for each test that asks for one, and a short directory for sockets."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.vineyardd import RunningVineyardd, running_vineyardd, short_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@pytest.fixture
async def daemon(directory: Path) -> AsyncIterator[RunningVineyardd]:
    async with running_vineyardd(directory / "vineyard.sock") as running:
        yield running
