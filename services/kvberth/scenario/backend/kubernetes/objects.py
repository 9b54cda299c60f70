"""Verbs that are requests to the API server: apply, delete, patch, scale; and the end of all that was applied."""

import asyncio
import contextlib
from collections.abc import Mapping, Set
from typing import Any, Final

from kvberth.kube import KubeError, NotFound, Refused, Resource
from kvberth.kube.resources import DEPLOYMENTS, KVCACHES, NAMESPACES, PODS, STATEFUL_SETS
from kvberth.scenario import manifests
from kvberth.scenario.backend.kubernetes import adapt, observed
from kvberth.scenario.backend.kubernetes.api import Json
from kvberth.scenario.backend.kubernetes.discovery import Discovery, UnknownKind
from kvberth.scenario.backend.kubernetes.evictions import Evictions
from kvberth.scenario.backend.kubernetes.look import Looker
from kvberth.scenario.backend.protocol import ScenarioError, Setting
from kvberth.scenario.backend.results import check_results
from kvberth.scenario.format import EngineTarget, Target
from kvberth.scenario.format.manifests import Apply
from kvberth.scenario.format.verbs import Delete, Patch, Scale
from kvberth.scenario.judge.lives import resolve
from kvberth_schemas.manifests import RawObject, load_documents
from kvberth_schemas.requests import Outcome, Result

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
REFUSED_WITHIN_S: Final = 10.0
"""What the API server took, placement may still not accept: it says so in a condition."""
GONE_WITHIN_S: Final = 120.0
END_GRACE_S: Final = 1
KILLED_AFTER_S: Final = 4.0
"""Neither what a story froze ends by itself, nor what was told to before it could listen: that gets its whole grace."""
_POLL_S = 0.2
_BY_KIND: Final = {"Deployment": DEPLOYMENTS, "StatefulSet": STATEFUL_SETS, "KVCache": KVCACHES, "Pod": PODS}
_Key = tuple[str, str, str]


class Objects:
    """What a user asks of one cluster, and what is to be removed afterwards."""

    def __init__(self, looker: Looker, setting: Setting, evictions: Evictions) -> None:
        self._api = looker.api
        self._evictions = evictions
        self._looker = looker
        self._setting = setting
        self._kinds = Discovery(looker.api.client)
        self._applied: dict[_Key, Json] = {}
        self._made: dict[tuple[Resource, str | None, str], None] = {}

    async def apply(self, apply: Apply) -> str:
        """Apply manifests. Raises ScenarioError, KubeError."""
        try:
            found = manifests.texts(apply, self._setting.folder, manifests.linger_seconds(self._setting.timing))
        except (OSError, ValueError) as error:
            raise ScenarioError(f"nothing is applied: {error}") from error
        results: list[Result] = []
        for source, text in found:
            for item in load_documents(text, source):
                result = await self._put(item, apply.namespace)
                if result.outcome is Outcome.ACCEPTED and item.kind == "KVCache" and item.name in apply.refused:
                    result = await self._refusal(result)
                results.append(result)
        return check_results(apply, results)

    async def delete(self, delete: Delete) -> str:
        """Delete an object, or an engine's pod. Raises ScenarioError, KubeError."""
        kind, name, namespace = delete.kind or "Pod", delete.name or "", delete.namespace
        if delete.engine is not None:
            name, namespace = await self._pod(delete.engine), delete.engine.namespace
        if not name or (delete.engine is None and delete.kind is None):
            raise ScenarioError("'delete' needs 'kind' and 'name', or 'engine'")
        if not await self._api.delete(_BY_KIND[kind], namespace, name):
            raise ScenarioError(f"there is no {kind} {namespace}/{name}")
        return f"{kind}/{name}"

    async def patch(self, patch: Patch) -> str:
        """Apply an object again with a change. Raises ScenarioError, KubeError."""
        key = (patch.kind, patch.namespace, patch.name)
        if key not in self._applied:
            there = ", ".join(f"{kind} {name}" for kind, _, name in self._applied) or "nothing"
            raise ScenarioError(
                f"this scenario applied no {patch.kind} {patch.name} that could be patched, but {there}"
            )
        self._applied[key] = manifests.merged(self._applied[key], patch.merge)
        await self._send(_BY_KIND[patch.kind], self._applied[key], patch.namespace)
        return f"{patch.kind}/{patch.name}"

    async def scale(self, scale: Scale) -> str:
        """Set the number of engines. Raises KubeError."""
        replicas = {"spec": {"replicas": scale.replicas}}
        await self._api.merge(_BY_KIND[scale.kind], scale.namespace, scale.workload, replicas, "scale")
        key = (scale.kind, scale.namespace, scale.workload)
        if key in self._applied:
            self._applied[key] = manifests.merged(self._applied[key], replicas)
        return f"{scale.kind}/{scale.workload}"

    async def drain(self, node: str) -> str:
        """Evict what a node runs of this scenario, as soon as budgets allow it. Raises KubeError."""
        namespaces = {namespace for _, namespace, _ in self._made}
        pods = [pod for pod in await self._api.list(PODS) if pod["spec"].get("nodeName") == node]
        pods = [pod for pod in pods if pod["metadata"]["namespace"] in namespaces and observed.role(pod) != "cache"]
        return await self._evictions.evict(pods)

    async def remove_all(self) -> list[str]:
        """Remove what this scenario applied, and wait until no engine and no cache is left; give what is."""
        for resource, namespace, name in reversed(self._made):
            with contextlib.suppress(NotFound):
                await self._api.delete(resource, namespace, name)
        deadline = asyncio.get_running_loop().time() + GONE_WITHIN_S
        namespaces = {namespace for _, namespace, _ in self._made}
        for pod in [pod for pod in await self._api.list(PODS) if _belongs(pod, namespaces)]:
            # The story is over: nobody waits for an engine that was told to end before it could listen.
            await self._api.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], END_GRACE_S)
        kill_at = asyncio.get_running_loop().time() + END_GRACE_S + KILLED_AFTER_S
        while left := [pod for pod in await self._api.list(PODS) if _belongs(pod, namespaces)]:
            now = asyncio.get_running_loop().time()
            if now > deadline:
                return [f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in left]
            if now > kill_at:
                await self._kill({pod["metadata"]["uid"] for pod in left})
                kill_at = now + KILLED_AFTER_S
            await asyncio.sleep(_POLL_S)
        self._made.clear()
        return []

    async def _kill(self, pods: Set[str]) -> None:
        """Kill what a kubelet has told to end and what lives on; a node that nobody can look at is left to it."""
        for being in await self._looker.beings():
            if being.pod["metadata"]["uid"] in pods:
                with contextlib.suppress(KubeError):
                    await self._looker.eyes.signal(being.node, being.process, "KILL")

    async def _put(self, item: RawObject, namespace: str) -> Result:
        common = {"kind": item.kind, "namespace": item.namespace or None, "name": item.name}
        if not item.kind or not item.name or item.complaints:
            said = "; ".join(str(one) for one in item.complaints) or "this is no object"
            return Result(**common, outcome=Outcome.REFUSED, sentence=said)
        try:
            resource = await self._kinds.resource(item.api_version, item.kind)
        except UnknownKind as error:
            return Result(**common, outcome=Outcome.IGNORED, sentence=str(error))
        try:
            await self._send(resource, dict(item.raw), namespace)
        except Refused as error:
            field = error.causes[0].field if error.causes else None
            return Result(**common, outcome=Outcome.REFUSED, field=field or None, sentence=str(error))
        return Result(**common, outcome=Outcome.ACCEPTED)

    async def _send(self, resource: Resource, raw: Json, default: str) -> None:
        namespace = ((raw.get("metadata") or {}).get("namespace") or default) if resource.namespaced else None
        item = adapt.adapted(raw, self._setting.timing)
        if namespace:
            item["metadata"]["namespace"] = namespace
            await self._give_namespace(namespace)
            await self._give_secrets(item, namespace)
        await self._own(resource, namespace, item)
        self._applied[resource.kind, namespace or "", item["metadata"]["name"]] = raw

    async def _own(self, resource: Resource, namespace: str | None, item: Json) -> None:
        """Apply an object that is this scenario's; never one that was there before."""
        name = item["metadata"]["name"]
        if (resource, namespace, name) not in self._made:
            there = await self._api.get(resource, namespace, name)
            if there and adapt.MARK not in (there["metadata"].get("labels") or {}):
                raise ScenarioError(
                    f"{resource.title(namespace, name)} is there already and no scenario made it; delete it, or choose "
                    "another cluster"
                )
        await self._api.apply(resource, item)
        self._made[resource, namespace, name] = None

    async def _give_namespace(self, name: str) -> None:
        if await self._api.get(NAMESPACES, None, name) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {adapt.MARK: "yes"}}}
            await self._own(NAMESPACES, None, body)

    async def _give_secrets(self, item: Mapping[str, Any], namespace: str) -> None:
        wanted: dict[str, list[str]] = {}
        for name, key in adapt.secrets_named(item):
            wanted.setdefault(name, []).append(key)
        for name, keys in wanted.items():
            if await self._api.get(SECRETS, namespace, name) is None:
                await self._own(SECRETS, namespace, adapt.secret(namespace, name, keys))

    async def _refusal(self, taken: Result) -> Result:
        """Wait for placement's word about a KVCache that the API server took."""
        deadline = asyncio.get_running_loop().time() + REFUSED_WITHIN_S
        while asyncio.get_running_loop().time() < deadline:
            found = await self._api.get(KVCACHES, taken.namespace or "default", taken.name)
            for one in ((found or {}).get("status") or {}).get("conditions") or ():
                if one["type"] == "Accepted" and one["status"] == "False":
                    return taken.model_copy(update={"outcome": Outcome.REFUSED, "sentence": one.get("message", "")})
            await asyncio.sleep(_POLL_S)
        return taken

    async def _pod(self, target: EngineTarget) -> str:
        pods = [pod for pod in observed.engines(await self._api.list(PODS)) if _is_of(pod, target)]
        if len(pods) != 1:
            there = ", ".join(pod.name for pod in pods)
            raise ScenarioError(f"{target} is {len(pods)} engines, where one is meant; there are: {there or 'none'}")
        return pods[0].name


def _is_of(pod: Any, target: EngineTarget) -> bool:  # noqa: ANN401 (one of the pod messages)
    life = observed.life_of(pod)
    return bool(resolve(Target(engine=target), [life]))


def _belongs(pod: Json, namespaces: set[str | None]) -> bool:
    return pod["metadata"]["namespace"] in namespaces and observed.role(pod) in {"engine", "cache"}
