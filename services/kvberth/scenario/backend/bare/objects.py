"""Verbs that are requests to the scheduler: apply, delete, patch, scale, cordon, drain, node delete."""

import asyncio
from typing import Any

import yaml

from kvberth.bus import Bus, BusError, NoResponder
from kvberth.scenario import manifests
from kvberth.scenario.backend.bare.look import Looker
from kvberth.scenario.backend.protocol import ScenarioError, Setting
from kvberth.scenario.backend.results import check_results, summary, told
from kvberth.scenario.format import EngineTarget, Target
from kvberth.scenario.format.manifests import Apply
from kvberth.scenario.format.verbs import Delete, Patch, Scale
from kvberth.scenario.judge.lives import resolve
from kvberth_schemas.model import Message
from kvberth_schemas.requests import ApplyRequest, NodeRequest, ObjectRequest, Outcome, Reply, Result, ScaleRequest
from kvberth_schemas.subjects import Verb

ANSWER_WITHIN_S = 15.0
"""A scheduler that was just killed is started again within seconds; a user would ask again, too."""
_AGAIN_S = 0.1

_NODE_VERBS = {
    "cordon": Verb.CORDON,
    "uncordon": Verb.UNCORDON,
    "drain": Verb.DRAIN,
    "node_delete": Verb.DELETE_NODE,
}


class Objects:
    """What a user asks of one stack."""

    def __init__(self, bus: Bus, looker: Looker, setting: Setting) -> None:
        self._bus = bus
        self._looker = looker
        self._setting = setting
        self._applied: dict[tuple[str, str, str], manifests.Object] = {}

    async def do(self, kind: str, value: Any) -> str:  # noqa: ANN401 (a verb's own type)
        """Carry out a verb. Raises ScenarioError where it is refused or not answered."""
        if kind in _NODE_VERBS:
            return _accepted(await self._ask(_NODE_VERBS[kind], NodeRequest(node=value)))
        if isinstance(value, Apply):
            return await self._apply(value)
        if isinstance(value, Delete):
            return await self._delete(value)
        if isinstance(value, Patch):
            return await self._patch(value)
        if isinstance(value, Scale):
            return await self._scale(value)
        raise ScenarioError(f"the bare backend has no verb '{kind}'")

    async def _apply(self, apply: Apply) -> str:
        try:
            found = manifests.texts(apply, self._setting.folder, manifests.linger_seconds(self._setting.timing))
        except (OSError, ValueError) as error:
            raise ScenarioError(f"nothing is applied: {error}") from error
        results: list[Result] = []
        for source, text in found:
            request = ApplyRequest(text=text, source=source, namespace=apply.namespace)
            results += (await self._ask(Verb.APPLY, request)).results
            self._applied |= manifests.objects_of(text, apply.namespace)
        return check_results(apply, results)

    async def _delete(self, delete: Delete) -> str:
        kind, name, namespace = delete.kind or "Pod", delete.name or "", delete.namespace
        if delete.engine is not None:
            name, namespace = self._pod(delete.engine), delete.engine.namespace
        if not name or (delete.engine is None and delete.kind is None):
            raise ScenarioError("'delete' needs 'kind' and 'name', or 'engine'")
        request = ObjectRequest(kind=kind, namespace=namespace, name=name)
        return _accepted(await self._ask(Verb.DELETE, request))

    async def _patch(self, patch: Patch) -> str:
        key = (patch.kind, patch.namespace, patch.name)
        if key not in self._applied:
            there = ", ".join(f"{kind} {name}" for kind, _, name in self._applied) or "nothing"
            raise ScenarioError(
                f"this scenario applied no {patch.kind} {patch.name} that could be patched, but {there}"
            )
        self._applied[key] = manifests.merged(self._applied[key], patch.merge)
        request = ApplyRequest(text=yaml.safe_dump(self._applied[key]), source="patch", namespace=patch.namespace)
        return _accepted(await self._ask(Verb.APPLY, request))

    async def _scale(self, scale: Scale) -> str:
        key = (scale.kind, scale.namespace, scale.workload)
        request = ScaleRequest(kind=scale.kind, namespace=scale.namespace, name=scale.workload, replicas=scale.replicas)
        said = _accepted(await self._ask(Verb.SCALE, request))
        if key in self._applied:
            self._applied[key] = manifests.merged(self._applied[key], {"spec": {"replicas": scale.replicas}})
        return said

    def _pod(self, target: EngineTarget) -> str:
        found = resolve(Target(engine=target), self._looker.lives())
        if len(found) != 1:
            there = ", ".join(str(life) for life in self._looker.lives() if life.role == "engine")
            raise ScenarioError(f"{target} is {len(found)} engines, where one is meant; there are: {there or 'none'}")
        return found[0].name

    async def _ask(self, verb: Verb, request: Message) -> Reply:
        deadline = asyncio.get_running_loop().time() + ANSWER_WITHIN_S
        while True:
            try:
                reply: Reply = await self._bus.request(verb, request, Reply)
            except NoResponder as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise ScenarioError(f"nobody answers '{verb}' within {ANSWER_WITHIN_S:g} s") from error
                await asyncio.sleep(_AGAIN_S)
            except BusError as error:
                raise ScenarioError(f"'{verb}' was not answered: {error}") from error
            else:
                return reply


def _accepted(reply: Reply) -> str:
    if reply.refused:
        raise ScenarioError("; ".join(told(result) for result in reply.results if result.outcome is Outcome.REFUSED))
    return summary(list(reply.results))
