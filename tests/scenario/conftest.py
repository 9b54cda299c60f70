"""The world of a scenario: a stack of its own in a directory of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenario.world import World, world


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory that does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
async def two_nodes(state: Path) -> AsyncIterator[World]:
    """A stack with the nodes l20-a and l20-b, one GPU each."""
    async with world(state) as made:
        yield made
