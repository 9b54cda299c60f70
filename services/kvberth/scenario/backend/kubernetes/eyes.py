"""The witnesses of a cluster: put on its nodes, asked, and taken away again."""

import asyncio
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kvberth.kube import KubeError, NotFound
from kvberth.kube.resources import DAEMON_SETS, PODS
from kvberth.scenario.backend.kubernetes import observed
from kvberth.scenario.backend.kubernetes.api import Api, Json
from kvberth.scenario.backend.kubernetes.processes import Process
from kvberth.scenario.backend.kubernetes.witness import PORT, ROOT, TOKEN_VARIABLE
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.facts import Answer, PathFact

NAME: Final = "kvberth-scenario-witness"
READY_WITHIN_S: Final = 60.0
REST_WITHIN_S: Final = 10.0
"""So long a witness that does not answer is asked again to take back what it did: else it stays until the run's end."""
_POLL_S = 0.2
_TAKEN_BACK: Final = frozenset({"fault", "peer", "fill"})
_RUN: Final = "kvberth.dev/scenario-run"
_LABELS: Final = {"app.kubernetes.io/name": NAME}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one node."""

    sockets: tuple[tuple[int | None, str], ...] = ()
    """Paths below the node's root for sockets; with a pid, as that process sees them."""
    paths: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    """Whose processes are told."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a node's witness answered."""

    sockets: Mapping[tuple[int | None, str], Answer] = field(default_factory=dict)
    paths: Mapping[str, PathFact] = field(default_factory=dict)
    processes: Sequence[Process] = ()
    seen: bool = True
    """False: nobody answered, so that nothing of this is known."""


@dataclass(frozen=True, slots=True)
class Way:
    """A witness through which NATS can be reached."""

    node: str
    pod: str
    address: str


class Eyes:
    """The witnesses, as one scenario asks them; `token` is that of its run, in which they stay."""

    def __init__(self, api: Api, namespace: str, token: str) -> None:
        self._api, self._namespace, self._token = api, namespace, token
        self._pods: dict[str, str] = {}
        self._done: set[str] = set()
        """Nodes where something was put that has to be taken back."""

    async def open(self, image: str, nodes: Sequence[str]) -> None:
        """Put a witness on every node, where this run has not yet, and wait until those of `nodes` answer.

        Raises:
            ScenarioError: one does not in time.
            KubeError: the API server refuses.
        """
        wanted = manifest(self._namespace, image, self._token)
        if not _is_there(wanted, await self._api.get(DAEMON_SETS, self._namespace, NAME)):
            await self.close()
            await self._api.apply(DAEMON_SETS, wanted)
        deadline = asyncio.get_running_loop().time() + READY_WITHIN_S
        while True:
            await self._find()
            silent = [node for node in nodes if await self._is_silent(node)]
            if not silent:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(
                    f"no witness answers on {', '.join(silent)} within {READY_WITHIN_S:g} s; see the pods of DaemonSet "
                    f"{self._namespace}/{NAME} (image {image}), and whether a NetworkPolicy keeps the API server out"
                )
            await asyncio.sleep(_POLL_S)

    async def close(self) -> None:
        """Take them away, and wait until their pods are gone, so that a later one's are not taken for them."""
        await self._api.delete(DAEMON_SETS, self._namespace, NAME)
        deadline = asyncio.get_running_loop().time() + READY_WITHIN_S
        while pods := await self._api.list(PODS, self._namespace, _selector()):
            if asyncio.get_running_loop().time() > deadline:
                names = ", ".join(pod["metadata"]["name"] for pod in pods)
                raise ScenarioError(f"the witnesses {names} are still there {READY_WITHIN_S:g} s after their deletion")
            await asyncio.sleep(_POLL_S)

    async def ask(self, node: str, question: Question) -> Told:
        """Ask one node.

        Raises:
            KubeError: its witness does not answer.
        """
        body = {
            "sockets": [{"pid": pid, "path": path} for pid, path in question.sockets],
            "paths": question.paths,
            "containers": question.containers,
        }
        said = await self._send(node, "/look", body)
        return Told(
            {where: Answer(**raw) for where, raw in zip(question.sockets, said["sockets"], strict=True)},
            {path: PathFact(**raw) for path, raw in zip(question.paths, said["paths"], strict=True)},
            [Process.from_json(raw) for raw in said["processes"]],
        )

    async def signal(self, node: str, process: Process, name: str) -> bool:
        """Send a signal to a process; give whether it still lived.

        Raises:
            KubeError: the node's witness does not answer.
        """
        body = {"pid": process.pid, "started": process.started, "signal": name}
        return bool((await self._send(node, "/signal", body))["sent"])

    async def do(self, verb: str, node: str, what: Json) -> str:
        """Have a node's witness carry out a verb on its machine.

        Raises:
            ScenarioError: it could not.
            KubeError: the node's witness does not answer.
        """
        if verb in _TAKEN_BACK:
            self._done.add(node)  # before it is sent: what nobody answered may be done
        said = await self._send(node, f"/do/{verb}", what)
        if "failed" in said:
            raise ScenarioError(said["failed"])
        return str(said["done"])

    async def way(self, troubled: Collection[str]) -> Way | None:
        """Give whose witness leads to NATS, rather on a node that no step troubles; None while there is none."""
        pods = await self._api.list(PODS, self._namespace, _selector())
        return calmest(pods, troubled)

    async def rest(self) -> list[str]:
        """End the faults and peers that a scenario put at sockets; give what failed."""
        deadline = asyncio.get_running_loop().time() + REST_WITHIN_S
        return [why for node in sorted(self._done) if (why := await self._rest(node, deadline)) is not None]

    async def _rest(self, node: str, deadline: float) -> str | None:
        while True:
            try:
                await self._send(node, "/rest", {})
            except NotFound:
                pass  # with the witness they went, too
            except KubeError as error:
                if asyncio.get_running_loop().time() < deadline:
                    await asyncio.sleep(_POLL_S)
                    continue
                return f"faults and peers on {node}: {error}"
            self._done.discard(node)
            return None

    async def _send(self, node: str, path: str, body: Json) -> Json:
        if node not in self._pods:
            await self._find()
        if node not in self._pods:
            raise KubeError(f"the node {node} has no witness")
        try:
            answer = await self._api.proxy(self._namespace, self._pods[node], PORT, f"{path}?token={self._token}", body)
        except NotFound:  # a node that was deleted has another one once it is back
            self._pods.pop(node, None)
            raise
        said: Json = json.loads(answer)
        return said

    async def _is_silent(self, node: str) -> bool:
        try:
            await self.ask(node, Question())
        except KubeError:
            return True
        return False

    async def _find(self) -> None:
        pods = await self._api.list(PODS, self._namespace, _selector())
        lasting = [pod for pod in pods if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]
        self._pods = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in lasting}


def _is_there(wanted: Json, found: Json | None) -> bool:
    """Whether the witnesses are this run's; pure."""
    annotations = (found or {}).get("metadata", {}).get("annotations") or {}
    return bool(annotations.get(_RUN) == wanted["metadata"]["annotations"][_RUN])


def _selector() -> str:
    return ",".join(f"{key}={value}" for key, value in _LABELS.items())


def calmest(pods: Iterable[Json], troubled: Collection[str]) -> Way | None:
    """Give the witness that will live longest: on a node that nothing troubles, if there is one; pure."""
    ready = [pod for pod in pods if observed.is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
    ways = [Way(pod["spec"]["nodeName"], pod["metadata"]["name"], pod["status"]["podIP"]) for pod in ready]
    return min(ways, key=lambda way: (way.node in troubled, way.node), default=None)


def manifest(namespace: str, image: str, token: str) -> dict[str, Any]:
    """Give the DaemonSet of the witnesses; pure."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": _LABELS,
            # A run is told by what its token and its image lead to, which are no secret then.
            "annotations": {_RUN: hashlib.sha256(f"{token} {image}".encode()).hexdigest()},
        },
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(image, token)},
        },
    }


def _pod(image: str, token: str) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostPID": True,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "witness",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python", "-m", "kvberth.scenario.backend.kubernetes.witness"],
                "env": [{"name": TOKEN_VARIABLE, "value": token}],
                # It reads the environments of other users' processes and sends them signals, whatever confines them.
                "securityContext": {"privileged": True, "runAsUser": 0},
                "volumeMounts": [{"name": "caches", "mountPath": ROOT}],
            }
        ],
        "volumes": [{"name": "caches", "hostPath": {"path": ROOT, "type": "DirectoryOrCreate"}}],
    }
