"""A bus, a subscriber, replicas that share a Lease, and nodes of this test's own."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube.pod_watcher.rig import Heard, Replicas, add_node, hearing, replicas
from kube.rig import delete
from kvberth.kube.client import Client
from kvberth.kube.errors import NotFound
from kvberth.kube.resources import NODES
from support.api_server import ControlPlane
from support.nats import NatsServer, nats_server


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with nats_server(tmp_path) as server:
        yield server


@pytest.fixture
async def heard(nats: NatsServer) -> AsyncIterator[Heard]:
    async with hearing(nats.url) as opened:
        yield opened


@pytest.fixture
async def watchers(plane: ControlPlane, nats: NatsServer, namespace: str, tmp_path: Path) -> AsyncIterator[Replicas]:
    """Not started yet; their Lease is in the test's namespace."""
    environment = {
        "KVBERTH_NATS_URL": nats.url,
        "KVBERTH_KUBECONFIG": str(plane.kubeconfig()),
        "KVBERTH_LEASE_NAMESPACE": namespace,
        "KVBERTH_LOG_FORMAT": "json",
    }
    async with replicas(tmp_path, environment) as started:
        yield started


@pytest.fixture
async def selector() -> dict[str, str]:
    """Chooses the test's own nodes."""
    return {"kvberth.test/nodes": uuid.uuid4().hex[:8]}


@pytest.fixture
async def node(client: Client, selector: dict[str, str]) -> AsyncIterator[str]:
    """A node that is ready."""
    name = f"l20-{uuid.uuid4().hex[:8]}"
    await add_node(client, name, selector)
    yield name
    try:
        await delete(client, NODES, None, name)
    except NotFound:
        return
