"""The way to a real API server: a pod's ServiceAccount, TLS, deadlines, sentences."""

from pathlib import Path

import pytest
from kubernetes_asyncio.config import incluster_config

from kvberth.kube.client import Call, Client
from kvberth.kube.errors import Invalid, KubeSettingsError, Unauthorized, Unreachable
from kvberth.kube.resources import CRDS, NAMESPACES
from kvberth.kube.settings import ClientSettings
from support.api_server import ControlPlane

LIST = Call(what="list of Namespace", path=NAMESPACES.path())


@pytest.fixture
def service_account(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files and variables that a kubelet gives to a pod; the path of the token."""
    token = tmp_path / "token"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(plane.api_port))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(plane.certificate))
    return token


async def test_a_pod_uses_its_own_account_and_a_token_that_was_rotated(
    plane: ControlPlane, service_account: Path
) -> None:
    service_account.write_text("expired")
    async with Client(ClientSettings(reload_every_s=0.0)) as client:
        with pytest.raises(Unauthorized, match="list of Namespace was refused with 401"):
            await client.request(LIST)
        service_account.write_text(plane.admin_token)
        with pytest.raises(Unauthorized):
            await client.request(LIST)  # the refusal is what makes it look again
        assert b'"kind":"NamespaceList"' in await client.request(LIST)


async def test_a_pod_without_its_token_is_told_so(service_account: Path) -> None:
    with pytest.raises(KubeSettingsError, match="the pod's ServiceAccount gives no way to an API server"):
        async with Client(ClientSettings()):
            pass


async def test_a_kubeconfig_that_is_no_kubeconfig_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "config"
    for text in ("", "[]", "{}", "clusters: 7", "\x00", "a: [b"):
        file.write_text(text)
        with pytest.raises(KubeSettingsError, match=f"kubeconfig {file} gives no way"):
            async with Client(ClientSettings(kubeconfig=file)):
                pass
    with pytest.raises(KubeSettingsError):
        async with Client(ClientSettings(kubeconfig=tmp_path / "missing")):
            pass


async def test_a_server_with_another_certificate_is_not_trusted(plane: ControlPlane, tmp_path: Path) -> None:
    other = plane.kubeconfig("untrusted").read_text().replace(str(plane.certificate), str(tmp_path / "ca.crt"))
    (tmp_path / "ca.crt").write_bytes(Path("/etc/ssl/certs/ca-certificates.crt").read_bytes())
    file = tmp_path / "config"
    file.write_text(other)
    async with Client(ClientSettings(kubeconfig=file)) as client:
        with pytest.raises(Unreachable, match="certificate"):
            await client.request(LIST)


async def test_a_long_refusal_is_read_to_its_end(client: Client) -> None:
    properties = {f"p{number}": {"type": "nothing"} for number in range(500)}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    body = {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": "longs.test.kvberth.dev"},
        "spec": {
            "group": "test.kvberth.dev",
            "names": {"plural": "longs", "kind": "Long"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    with pytest.raises(Invalid) as refused:
        await client.request(Call(what="create", path=CRDS.path(), method="POST", body=body))
    assert len(refused.value.causes) >= 500


async def test_an_answer_without_measure_is_refused(plane: ControlPlane) -> None:
    async with Client(ClientSettings(kubeconfig=plane.kubeconfig(), max_answer_bytes=100)) as client:
        with pytest.raises(Unreachable, match="more than 100 bytes"):
            await client.request(LIST)
