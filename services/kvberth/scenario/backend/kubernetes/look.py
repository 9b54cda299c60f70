"""Finds out what expectations are about on a cluster, and only that. Changes nothing."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kvberth.kube import KubeError
from kvberth.kube.resources import KVCACHES, LEASES, NODES, PODS
from kvberth.scenario.backend import probes
from kvberth.scenario.backend.asked import StatusAsked
from kvberth.scenario.backend.kubernetes import observed
from kvberth.scenario.backend.kubernetes.api import Api, Json
from kvberth.scenario.backend.kubernetes.concern import concerned, stands_for
from kvberth.scenario.backend.kubernetes.eyes import Eyes, Question, Told
from kvberth.scenario.backend.kubernetes.observed import Being
from kvberth.scenario.facts import Answer, Facts, Heard, PathFact, Place, Readiness, Sample
from kvberth.scenario.format import Expectation, Target

_HTTP_PORT = 8080
_NEED_LIVES = frozenset({"same", "changed", "lives", "process", "memory", "reaches", "start_order"})
"""A kernel under load answers late about processes that start; sockets need not wait for that."""
_LEASES = {"placement": "kvberth-placement", "scheduler": "kvberth-pod-watcher"}


@dataclass
class Looker:
    """Looks at one cluster."""

    api: Api
    eyes: Eyes
    nodes: list[str]
    """Those of the scenario: only their sockets are asked."""
    heard: Sequence[Heard]
    status: StatusAsked
    down: set[str] = field(default_factory=set)
    """Nodes that were taken down: there is nobody to ask, and nothing runs."""

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        """Give the facts as they are now. Raises KubeError where the API server does not answer."""
        parts = [part for item in expectations for part in item.parts()]
        kinds = {part.kind for part in parts}
        if "cli" in kinds:
            self.status.ask()
        pods, nodes, kvcaches = await asyncio.gather(
            self.api.list(PODS),
            self.api.list(NODES) if "node" in kinds else _nothing(),
            self.api.list(KVCACHES) if kinds & {"condition", "status"} else _nothing(),
        )
        questions = self._questions(parts, pods, alive=bool(kinds & _NEED_LIVES))
        told = await self._ask(questions)
        found = list(observed.beings(pods, {node: one.processes for node, one in told.items()}))
        given = await self._given(found) if "reaches" in kinds else {}
        silent = {node for node, one in told.items() if not one.seen}
        silent |= {being.node for being, one in given.values() if not one.seen}
        statuses = (observed.status_of(one) for one in kvcaches)
        facts = Facts(
            at=datetime.now(UTC),
            nodes=tuple(map(observed.node_state, nodes)),
            pods=observed.engines(pods),
            statuses=tuple(status for status in statuses if status is not None),
            heard=self.heard,
            printed=self.status.printed,
            lives=tuple(being.life for being in found),
            answers=self._answers(questions, told),
            unseen=await self._unseen(silent, questions, parts, pods) if silent else frozenset(),
            paths=_paths(parts, told),
        )
        facts = replace(
            facts,
            given={path: next(iter(one.sockets.values())) for path, (_, one) in given.items()},
            metrics=await self._metrics([part.value.of for part in parts if part.kind == "metric"], pods),
            readiness={str(p.value.of): await self._readiness(p.value.of, pods) for p in parts if p.kind == "ready"},
            logs={str(p.value.of): await self._log(p.value.of, pods) for p in parts if p.kind == "log"},
        )
        return replace(facts, at=datetime.now(UTC))

    async def beings(self) -> list[Being]:
        """Give every process that has a role."""
        pods = await self.api.list(PODS)
        told = await self._ask(self._questions([], pods, alive=True))
        return list(observed.beings(pods, {node: one.processes for node, one in told.items()}))

    async def leader(self, role: str) -> str | None:
        """Give the pod that leads among the replicas of a service; None where there is no Lease or no holder."""
        lease = await self.api.get(LEASES, observed.INSTALLED, _LEASES[role]) if role in _LEASES else None
        holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
        return holder.partition("_")[0] or None

    def _questions(self, parts: Sequence[Expectation], pods: Iterable[Json], *, alive: bool) -> dict[str, Question]:
        containers: dict[str, list[str]] = {}
        kvcaches = set()
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if alive and node and observed.role(pod) is not None:
                containers.setdefault(node, []).extend(observed.container_ids(pod))
            if observed.role(pod) == "cache":
                kvcaches.add((pod["metadata"]["namespace"], pod["metadata"]["labels"][observed.CACHE_LABEL]))
        sockets = {node: set(found) for node, found in self._sockets(parts, kvcaches).items()}
        paths: dict[str, set[str]] = {}
        for part in parts:
            if part.kind == "path":
                paths.setdefault(part.value.node, set()).add(part.value.path)
        return {
            node: Question(
                tuple(sorted((None, path) for path in sockets.get(node, ()))),
                tuple(sorted(paths.get(node, ()))),
                tuple(containers.get(node, ())),
            )
            for node in (sockets.keys() | paths.keys() | containers.keys()) - self.down
        }

    def _sockets(self, parts: Sequence[Expectation], kvcaches: set[tuple[str, str]]) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for part in parts:
            value: Any = part.value
            if part.kind in {"caches", "reaches"}:
                for node in self.nodes:
                    found.setdefault(node, []).append(_path(value.namespace, value.kvcache))
            elif part.kind == "socket":
                found.setdefault(value.node, []).append(_path(value.namespace, value.kvcache))
            elif part.kind in {"same", "changed"}:
                for node in self.nodes:
                    found.setdefault(node, []).extend(_path(*one) for one in kvcaches)
        return found

    async def _ask(self, questions: Mapping[str, Question]) -> dict[str, Told]:
        asked = list(questions)
        answers = await asyncio.gather(*(self._ask_node(node, questions[node]) for node in asked))
        return dict(zip(asked, answers, strict=True))

    async def _ask_node(self, node: str, question: Question) -> Told:
        try:
            return await self.eyes.ask(node, question)
        except KubeError as error:
            silent = Answer("other", detail=f"the witness of {node} can't be asked: {error}")
            paths = dict.fromkeys(question.paths, PathFact("other"))
            return Told(dict.fromkeys(question.sockets, silent), paths, seen=False)

    def _answers(self, questions: Mapping[str, Question], told: Mapping[str, Told]) -> dict[Place, Answer]:
        found = {
            Place(node, *path.split("/")[:2]): told[node].sockets[None, path]
            for node, question in questions.items()
            for _, path in question.sockets
        }
        return found | {
            Place(node, *place[1:]): Answer("missing", detail=f"the node {node} is down")
            for node in self.down
            for place in list(found)
        }

    async def _given(self, found: Sequence[Being]) -> dict[str, tuple[Being, Told]]:
        """Ask what engines were given, by the path of each."""
        engines = [one for one in found if one.life.socket and one.process.socket]
        questions = [Question(sockets=((one.process.pid, one.process.socket or ""),)) for one in engines]
        told = await asyncio.gather(*(self._ask_node(o.node, q) for o, q in zip(engines, questions, strict=True)))
        return {one.life.socket or "": (one, answer) for one, answer in zip(engines, told, strict=True)}

    async def _unseen(
        self, silent: set[str], questions: Mapping[str, Question], parts: Sequence[Expectation], pods: Sequence[Json]
    ) -> frozenset[str]:
        """Give the silent nodes that matter: a stranger that is lost holds nothing that a rule is about, mostly."""
        named = {node for node, question in questions.items() if question.sockets or question.paths}
        strangers = silent - set(self.nodes) - named - concerned(parts, pods)
        nodes = map(observed.node_state, await self.api.list(NODES)) if strangers else ()
        ready = {node.name for node in nodes if node.ready}
        return frozenset(silent - (strangers - ready))

    async def _metrics(self, targets: Sequence[Target], pods: Sequence[Json]) -> dict[str, Sequence[Sample] | str]:
        return {str(target): await self._scrape(target, pods) for target in targets}

    async def _scrape(self, target: Target, pods: Sequence[Json]) -> Sequence[Sample] | str:
        pod = await self._pod_of(target, pods)
        if isinstance(pod, str):
            return pod
        port = observed.WORKER_PORT if target.kind == "worker" else _HTTP_PORT
        if target.kind == "engine":
            port = (observed.engine_container(pod).get("ports") or [{"containerPort": 8000}])[0]["containerPort"]
        meta = pod["metadata"]
        try:
            text = await self.api.proxy(meta["namespace"], meta["name"], port, "/metrics")
        except KubeError as error:
            return str(error)
        return probes.parse_metrics(text.decode(errors="replace"))

    async def _readiness(self, target: Target, pods: Sequence[Json]) -> Readiness | str:
        pod = await self._pod_of(target, pods)
        if isinstance(pod, str) or target.kind != "worker":
            return pod if isinstance(pod, str) else Readiness(observed.is_ready(pod), None)
        meta = pod["metadata"]  # no kubelet asks whether a worker is ready, so it is asked itself
        try:
            said = await self.api.proxy(meta["namespace"], meta["name"], observed.WORKER_PORT, "/readyz")
        except KubeError as error:
            return Readiness(False, str(error))
        return Readiness(True, said.decode(errors="replace"))

    async def _log(self, target: Target, pods: Sequence[Json]) -> Sequence[str] | str:
        pod = await self._pod_of(target, pods)
        if isinstance(pod, str):
            return pod
        meta = pod["metadata"]
        own = observed.container_of(target.kind, pod)
        # As one log, as on bare: of what was started again a kubelet keeps the life before, too.
        asked = [
            *((name, False) for name in observed.gates(pod)),
            *(((own, True),) if observed.restarts(pod, own) else ()),
        ]
        parts = [
            await self.api.log(meta["namespace"], meta["name"], name, previous=previous)
            for name, previous in (*asked, (own, False))
        ]
        # What waits at a gate has no log of its own yet; where nobody has one, the last word says why.
        told = [part for part in parts if not isinstance(part, str)]
        return [line for part in told for line in part] if told else parts[-1]

    async def _pod_of(self, target: Target, pods: Sequence[Json]) -> Json | str:
        """Give the one pod that a target means, the leader where a service has several; or why there is none."""
        found = [pod for pod in pods if stands_for(pod, target)]
        if len(found) > 1 and target.kind == "service":
            leader = await self.leader(target.value.name)
            found = [pod for pod in found if pod["metadata"]["name"] == leader] or found
        return found[0] if len(found) == 1 else f"{target} is {len(found)} pods, where one is meant"


def _paths(parts: Iterable[Expectation], told: Mapping[str, Told]) -> dict[tuple[str, str], PathFact]:
    wanted = [(part.value.node, part.value.path) for part in parts if part.kind == "path"]
    return {(node, path): told[node].paths[path] if node in told else PathFact("other") for node, path in wanted}


def _path(namespace: str, kvcache: str) -> str:
    return f"{namespace}/{kvcache}/vineyard.sock"


async def _nothing() -> list[Json]:
    return []
