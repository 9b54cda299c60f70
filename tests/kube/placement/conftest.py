"""A real nats-server beside the control plane, and a stage for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube.placement.stage import Stage, stage
from kvberth.kube import Client
from support.api_server import ControlPlane
from support.nats import nats_server


@pytest.fixture
async def world(client: Client, plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with nats_server(tmp_path / "nats") as server, stage(client, plane, namespace, server.url) as opened:
        yield opened
