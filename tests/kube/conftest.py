"""One real control plane for all tests here; each test gets a namespace of its own."""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from kvberth.kube.client import Call, Client
from kvberth.kube.resources import NAMESPACES
from kvberth.kube.settings import ClientSettings
from kvberth_schemas import crd
from support.api_server import ControlPlane, control_plane, missing_assets
from support.tcp_proxy import TcpProxy, tcp_proxy


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    why = missing_assets()
    if why:
        pytest.skip(why)
    with control_plane(tmp_path_factory.mktemp("control-plane"), [crd.FILE]) as running:
        yield running


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(ClientSettings(kubeconfig=plane.kubeconfig())) as opened:
        yield opened


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.request(Call(what=f"POST {name}", path=NAMESPACES.path(), method="POST", body=body))
    return name


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncIterator[TcpProxy]:
    async with tcp_proxy(plane.api_port, plane.certificate) as opened:
        yield opened


@pytest.fixture
async def proxied(plane: ControlPlane, proxy: TcpProxy) -> AsyncIterator[Client]:
    """A client whose bytes go through the proxy."""
    config = plane.kubeconfig("proxied", server=proxy.url)
    async with Client(ClientSettings(kubeconfig=config)) as opened:
        yield opened
