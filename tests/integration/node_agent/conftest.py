"""A root with short paths, and a keeper that keeps directories below it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from integration.node_agent.running_agent import Agent, running_agent
from support.vineyardd import short_directory


@pytest.fixture
def root() -> Iterator[Path]:
    with short_directory() as path:
        yield path


@pytest.fixture
async def agent(root) -> AsyncIterator[Agent]:
    async with running_agent(root) as running:
        yield running
