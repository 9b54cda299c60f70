"""What is done to the processes of an install, on any cluster: by a privileged pod on each node (`kubectl exec`)."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.cluster import INSTALLED, NAMESPACE, Json, until

from kvberth.kube.resources import DAEMON_SETS, NODES, PODS, SERVICES
from kvberth.scenario.backend.kubernetes.api import Api

PROGRAM: Final = Path(__file__).with_name("hands_program.py").read_text(encoding="utf-8")
NAME: Final = "kvberth-test-hands"
SOCKETS: Final = "/var/run/vineyard-kubernetes"
ASKED_WITHIN_S: Final = 20.0
Fault = Literal["kill", "pause", "cut"]


@dataclass(frozen=True)
class Process:
    """One process of the install: the container of a pod."""

    pod: str
    uid: str
    node: str
    container: str
    """Its id; that of the life that was seen."""

    @classmethod
    def of(cls, pod: Json) -> "Process":
        """Read a pod of one container."""
        meta, (status,) = pod["metadata"], pod["status"]["containerStatuses"]
        return cls(meta["name"], meta["uid"], pod["spec"]["nodeName"], status["containerID"].rpartition("/")[2])


@dataclass
class Hands:
    """A pod on each node."""

    api: Api
    kubeconfig: Path
    pods: dict[str, str] = field(default_factory=dict)

    async def open(self, image: str) -> None:
        """Put them there."""
        await self.api.apply(DAEMON_SETS, _daemon_set(image))
        nodes = len(await self.api.list(NODES))

        async def there() -> dict[str, str] | None:
            pods = await self.api.list(PODS, NAMESPACE, f"app.kubernetes.io/name={NAME}")
            ready = {
                pod["spec"]["nodeName"]: pod["metadata"]["name"]
                for pod in pods
                if any(one["ready"] for one in pod["status"].get("containerStatuses") or ())
            }
            return ready if len(ready) == nodes else None

        self.pods = await until(there, "hands are on all nodes")

    async def close(self) -> None:
        """Take them away."""
        await self.api.delete(DAEMON_SETS, NAMESPACE, NAME)

    async def begin(self, fault: Fault, process: Process) -> None:
        """Freeze a process (one that is to be killed, too: its part is surely not done before), or cut its pod off."""
        if fault == "cut":
            await self.do(process.node, "cut", process.uid)
        else:
            await self.do(process.node, "send", process.container, "STOP")

    async def end(self, fault: Fault, process: Process) -> None:
        """Let it go on, or its next life begin. A process that was ended meanwhile is none to let go on."""
        if fault == "cut":
            await self.do(process.node, "heal", process.uid)
        else:
            await self.do(process.node, "send", process.container, "KILL" if fault == "kill" else "CONT")

    async def cut(self, process: Process, service: str, namespace: str = INSTALLED) -> None:
        """Let nothing of a pod reach a Service."""
        await self.do(process.node, "cut", process.uid, await self._address(namespace, service))

    async def heal(self, process: Process, service: str, namespace: str = INSTALLED) -> None:
        """Take that back."""
        await self.do(process.node, "heal", process.uid, await self._address(namespace, service))

    async def unsent(self, process: Process) -> int:
        """Give the bytes that one connection of a pod could not send yet, at most."""
        return int(await self.do(process.node, "unsent", process.uid))

    async def directories(self, node: str) -> dict[str, list[str]]:
        """Give what each cache's directory of a node holds, as NAMESPACE/KVCACHE."""
        return dict(await self.do(node, "directories"))

    async def do(self, node: str, *words: str) -> Any:
        """Ask the hands of a node. Raises RuntimeError with what they said."""
        command = ("kubectl", "--kubeconfig", str(self.kubeconfig), "-n", NAMESPACE, "exec", self.pods[node])
        child = await asyncio.create_subprocess_exec(
            *command,
            *("--", "python", "-c", PROGRAM, *words),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(ASKED_WITHIN_S):
                out, err = await child.communicate()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if child.returncode:
            raise RuntimeError(f"{' '.join(words)} on {node}: {err.decode(errors='replace')[-300:]}")
        return json.loads(out)

    async def _address(self, namespace: str, service: str) -> str:
        found = await self.api.get(SERVICES, namespace, service)
        if found is None:
            raise RuntimeError(f"there is no Service {namespace}/{service}")
        return f"{found['spec']['clusterIP']}/32"


def _daemon_set(image: str) -> Json:
    labels = {"app.kubernetes.io/name": NAME}
    container = {
        "name": "hands",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", "import signal; signal.pause()"],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": "caches", "mountPath": SOCKETS, "readOnly": True}],
    }
    spec = {
        "hostPID": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "caches", "hostPath": {"path": SOCKETS, "type": "DirectoryOrCreate"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
