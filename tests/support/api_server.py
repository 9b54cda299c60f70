"""A real Kubernetes control plane without nodes, from the binaries in KUBEBUILDER_ASSETS: etcd, kube-apiserver,
kube-controller-manager and kube-scheduler, on 127.0.0.1, as an ordinary user. Each is ended by its pid.
"""

import base64
import ctypes
import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.ports import free_port

ASSETS = "KUBEBUILDER_ASSETS"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
UNCACHED = "configmaps"
"""The resource that the API server serves without a watch cache, so that a compaction is felt at once."""

_START_S = 60.0


def missing_assets() -> str:
    """Why no API server can be started here; empty when one can."""
    folder = os.environ.get(ASSETS)
    if not folder:
        return f"{ASSETS} is not set"
    missing = [name for name in COMPONENTS if not (Path(folder) / name).exists()]
    return f"{ASSETS} lacks {', '.join(missing)}" if missing else ""


@dataclass
class ControlPlane:
    """A running control plane; `api_port` and the tokens outlive a restart of the API server."""

    directory: Path
    etcd_port: int = field(default_factory=free_port)
    api_port: int = field(default_factory=free_port)
    admin_token: str = field(default_factory=lambda: secrets.token_hex(16))
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def certificate(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    def kubeconfig(self, name: str = "admin", *, token: str | None = None, server: str | None = None) -> Path:
        """Write a kubeconfig; `server` may be a proxy's address."""
        cluster = {"server": server or self.url, "certificate-authority": str(self.certificate)}
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token or self.admin_token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(value))
        return path

    def start(self, manifests: Sequence[Path] = ()) -> None:
        """Start everything; the manifests are there before the controllers look for kinds, which they do seldom."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._identities()
        self._start_etcd()
        self.start_api_server()
        for manifest in manifests:
            self.kubectl("apply", "-f", str(manifest))
        config = self.kubeconfig("components")
        common = [f"--kubeconfig={config}", f"--authentication-kubeconfig={config}", "--leader-elect=false"]
        common += [f"--authorization-kubeconfig={config}", "--secure-port=0"]
        self._spawn(
            "kube-controller-manager",
            *common,
            f"--service-account-private-key-file={self.directory}/sa.key",
            f"--root-ca-file={self.certificate}",
            "--node-monitor-grace-period=24h",  # nodes here are rows without a kubelet
        )
        self._spawn("kube-scheduler", *common)

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints, as the admin."""
        command = [str(Path(os.environ[ASSETS]) / "kubectl"), "--kubeconfig", str(self.kubeconfig()), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout

    def stop(self) -> None:
        for name in list(reversed(self.running)):
            self.end(name)

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.running.pop(name)
        process.send_signal(how)
        process.wait(30)

    def start_api_server(self) -> None:
        folder = self.directory
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.api_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={folder}/certs",
            f"--service-account-key-file={folder}/sa.key",
            f"--service-account-signing-key-file={folder}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            f"--token-auth-file={folder}/tokens.csv",
            "--service-cluster-ip-range=10.247.0.0/16",
            f"--watch-cache-sizes={UNCACHED}#0",
            "--allow-privileged=true",
            "--shutdown-delay-duration=0s",
            f"--audit-policy-file={folder}/audit.json",
            f"--audit-log-path={folder}/audit.log",
        )
        self._until("kube-apiserver", self._ready)

    def compact(self) -> None:
        """Let etcd forget all history before now."""
        at = self._etcd("kv/range", {"key": _text("/")})["header"]["revision"]
        self._etcd("kv/compaction", {"revision": at, "physical": True})

    def writes(self, user_agent: str) -> list[dict[str, Any]]:
        """What a client wrote so far, as the API server recorded it: verb, objectRef, code."""
        return [one for one in self._audited() if one.get("userAgent") == user_agent]

    def asked_by(self, account: str) -> list[dict[str, Any]]:
        """What a service account (`namespace:name`) asked for so far, reads too."""
        return [one for one in self._audited() if one["user"].get("username") == f"system:serviceaccount:{account}"]

    def _audited(self) -> list[dict[str, Any]]:
        lines = (self.directory / "audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def _etcd(self, path: str, body: dict[str, Any]) -> Any:
        url = f"http://127.0.0.1:{self.etcd_port}/v3/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as answer:
            return json.load(answer)

    def _identities(self) -> None:
        (self.directory / "tokens.csv").write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        (self.directory / "sa.key").write_text(_ec_key())
        rules = [
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]},
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"], "omitStages": ["RequestReceived"]},
        ]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        (self.directory / "audit.json").write_text(json.dumps(policy))

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{free_port()}"
        self._spawn(
            "etcd",
            f"--data-dir={self.directory}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            "--max-request-bytes=8388608",
        )

    def _spawn(self, name: str, *arguments: str) -> None:
        command = [str(Path(os.environ[ASSETS]) / name), *arguments]
        with (self.directory / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent
            )

    def _ready(self) -> bool:
        if not self.certificate.exists():
            return False
        context = ssl.create_default_context(cafile=self.certificate)
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.admin_token}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _until(self, name: str, condition: Any) -> None:
        ends = time.monotonic() + _START_S
        while not condition():
            if self.running[name].poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{name} did not come up; see {self.directory}/{name}.log")
            time.sleep(0.05)


@contextmanager
def control_plane(directory: Path, manifests: Sequence[Path] = ()) -> Iterator[ControlPlane]:
    """A running control plane, ended afterwards."""
    plane = ControlPlane(directory)
    try:
        plane.start(manifests)
        yield plane
    finally:
        plane.stop()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))


def _ec_key() -> str:
    """A private key on P-256 as SEC1 PEM; Go computes the public half."""
    scalar = secrets.token_bytes(32)
    body = b"\x02\x01\x01\x04\x20" + scalar + bytes.fromhex("a00a06082a8648ce3d030107")
    encoded = base64.encodebytes(b"\x30" + bytes([len(body)]) + body).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{encoded}-----END EC PRIVATE KEY-----\n"


def _text(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
