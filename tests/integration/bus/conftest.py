"""A nats-server for each test."""

from collections.abc import AsyncIterator

import pytest

from support.nats import NatsServer, nats_server


@pytest.fixture
async def server(tmp_path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path) as running:
        yield running
