"""Keeps the children of KVCaches as they should be: one key of a queue per KVCache, whatever the reason to look.

Owns the reflectors of what it owns. What to write is decided by `children`; what keeps it from being written is a
trouble that plans and statuses tell.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from kvberth.kube import (
    AlreadyExists,
    Change,
    Conflict,
    Entry,
    Forbidden,
    Invalid,
    Metrics,
    NotFound,
    Reflector,
    Selection,
    Target,
    Unreadable,
    Verb,
    WorkQueue,
    get,
)
from kvberth.kube.resources import DAEMON_SETS
from kvberth.kvcache import KVCACHE_LABEL
from kvberth.placement.apply.kubernetes import reading
from kvberth.placement.apply.kubernetes.children import (
    Apply,
    Blocked,
    Create,
    Live,
    Name,
    Write,
    managed,
    taken,
    writes,
)
from kvberth.placement.apply.kubernetes.failures import ASK_AFTER_S, ASK_EVERY_S, Failures
from kvberth.placement.apply.kubernetes.kinds import OWNERS, SERVICE, SETS, LiveService, LiveSet
from kvberth.placement.apply.kubernetes.render import TOUCHED, Child, Owner
from kvberth.placement.apply.kubernetes.restarting import revisions
from kvberth.placement.apply.kubernetes.wanted import Asked, Ways, children
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.memory import Trouble
from kvberth.placement.reasons import Reason
from kvberth.placement.states import KVCache
from kvberth.placement.steps import AnyStep

Key = tuple[str, str]
"""Namespace and name of a KVCache."""

_ROUNDS = 8
_BLOCKED_S = 5.0
_TAKEN_S = 30.0


@dataclass(frozen=True, slots=True)
class Intent:
    """What should be of one KVCache."""

    item: KVCache
    asked: Asked
    untold: tuple[tuple[AnyStep, str], ...]
    """Steps that can be told once it is so, each with its plan."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Whom the keeper asks and tells."""

    intent: Callable[[Key], Intent | None]
    """None: nothing may be written about it."""
    trouble: Callable[[Key, Trouble | None], None]
    revisions: Callable[[Key, Mapping[str, str]], None]
    """By pool: what new pods are made from."""
    written: Callable[[Key, Intent], Awaitable[None]]
    """Called whenever the API server has all DaemonSets as they should be."""
    now: Callable[[], datetime]
    ways: Ways


class _Again(Exception):  # noqa: N818 -- a word between two methods, no error
    """An object is other than it was seen, so what to write has to be decided anew."""


@dataclass(slots=True)
class _Found:
    again: bool = False
    trouble: Trouble | None = None
    sets_blocked: bool = False


class Keeper:
    """The children of all KVCaches; `run()` keeps them true."""

    def __init__(self, cluster: Cluster, desk: Desk, metrics: Metrics) -> None:
        """Nothing is read or written before `run()`."""
        self._cluster = cluster
        self._desk = desk
        chosen = Selection(labels=KVCACHE_LABEL)
        self._sets = Reflector(cluster.client, SETS, chosen, metrics=metrics)
        self._services = Reflector(cluster.client, SERVICE, chosen, metrics=metrics)
        self._queue: WorkQueue[Key] = WorkQueue("children", metrics=metrics)
        self._by_key: dict[Key, dict[Name, Live]] = {}
        self._failures = Failures()
        self._sets.add_listener(self._take)
        self._services.add_listener(self._take)

    async def run(self) -> None:
        """Follow and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sets.run(), name="DaemonSets")
            group.create_task(self._services.run(), name="Services")
            group.create_task(self._queue.run(self._keep), name="children")

    def blind(self) -> str | None:
        """Why not all of our own objects are seen; None while they are."""
        for reflector, what in ((self._sets, "DaemonSets"), (self._services, "Services")):
            if not reflector.live:
                why = f" ({reflector.trouble})" if reflector.trouble else ""
                return f"the API server does not show our {what} now{why}"
        return None

    async def synced(self, timeout_s: float) -> bool:
        """Wait until all of our own objects were read once."""
        found = await asyncio.gather(self._sets.wait_synced(timeout_s), self._services.wait_synced(timeout_s))
        return all(found)

    def add(self, key: Key) -> None:
        """Have a KVCache looked at."""
        self._queue.add(key)

    def live(self, key: Key) -> dict[Name, Live]:
        """The children of a KVCache as they were seen last."""
        return self._by_key.get(key, {})

    def sets(self) -> list[LiveSet]:
        """All DaemonSets of ours."""
        return [entry.value for entry in self._sets.entries.values()]

    def _take(self, change: Change[LiveSet] | Change[LiveService]) -> None:
        entry = change.now or change.before
        if entry is None:
            return
        item: Live = entry.value
        key = (item.metadata.namespace, item.metadata.labels.get(KVCACHE_LABEL, ""))
        name = ("DaemonSet" if isinstance(item, LiveSet) else "Service", item.metadata.name)
        if change.verb is Verb.DELETED:
            self._by_key.get(key, {}).pop(name, None)
            self._failures.forget(item.metadata.uid)
        else:
            self._by_key.setdefault(key, {})[name] = item
        self._queue.add(key)

    async def _keep(self, key: Key) -> None:
        intent = self._desk.intent(key)
        if intent is None or intent.item.spec is None:
            self._desk.trouble(key, None)
            self._desk.revisions(key, {})
            return
        owner = Owner(*key, intent.item.uid)
        live = dict(self.live(key))
        for _ in range(_ROUNDS):
            wanted = children(intent.item.spec, owner, intent.asked, live, self._desk.ways)
            found = await self._write(owner, writes(owner, wanted, live), live)
            if not found.again:
                break
        else:
            self._queue.add(key, 1.0)
            return
        self._desk.trouble(key, found.trouble or await self._creation(key, wanted, live))
        if not found.sets_blocked:
            await self._desk.written(key, intent)
        made_from, now = revisions(wanted, self.live(key)), self._desk.intent(key)
        if made_from is not None and now is not None and now.item.spec == intent.item.spec:
            self._desk.revisions(key, made_from)

    async def _write(self, owner: Owner, todo: list[Write], live: dict[Name, Live]) -> "_Found":
        """Write all that can be written, and say what is in the way of the rest."""
        found = _Found()
        for write in todo:
            try:
                trouble = await self._one(owner, write, live)
            except _Again:
                found.again = True
                continue
            except (Forbidden, Invalid) as error:
                self._desk.trouble((owner.namespace, owner.name), Trouble(Reason.WRITE_REFUSED, str(error)))
                raise
            if trouble is not None:
                found.trouble = found.trouble or trouble
                found.sets_blocked = found.sets_blocked or _target(write).resource is DAEMON_SETS
        return found

    async def _one(self, owner: Owner, write: Write, live: dict[Name, Live]) -> Trouble | None:
        """Write one object; return what is in the way. Raises _Again where it is other than it was seen."""
        target = _target(write)
        if isinstance(write, Blocked):
            self._queue.add((owner.namespace, owner.name), _BLOCKED_S)
            return write.trouble
        try:
            if isinstance(write, Create):
                return await self._create(owner, write.child, live)
            if isinstance(write, Apply):
                await self._cluster.apply(target, write.child.body)
            else:
                await self._cluster.delete(target)
        except NotFound:
            live.pop((target.resource.kind, target.name), None)
            if isinstance(write, Apply):
                raise _Again from None
        except Conflict:
            await self._reread(target, live)
            raise _Again from None
        return None

    async def _create(self, owner: Owner, child: Child, live: dict[Name, Live]) -> Trouble | None:
        there = await reading.kvcache(self._cluster.client, owner.namespace, owner.name)
        if there is None or there.metadata.uid != owner.uid or there.metadata.deleting:
            return None  # it is gone, which the bus says soon
        trouble = await self._another(owner)
        if trouble is not None:
            return trouble
        try:
            await self._cluster.create(child.target, child.body)
        except AlreadyExists:
            found = await self._reread(child.target, live)
            if found is None or found.metadata.labels.get(KVCACHE_LABEL) == owner.name:
                raise _Again from None  # ours: of this life, which was not seen yet, or of an earlier one
            del live[child.target.resource.kind, child.target.name]
            self._queue.add((owner.namespace, owner.name), _TAKEN_S)
            return taken(child, found, owner)
        return None

    async def _another(self, owner: Owner) -> Trouble | None:
        """Whether another controller makes children for the KVCache: AIBrix' own would be a Deployment of its name."""
        found = await get(self._cluster.client, OWNERS["Deployment"], owner.namespace, owner.name)
        if found is None or isinstance(found, Unreadable):
            return None
        if not any(one.uid == owner.uid and one.controller for one in found.value.metadata.owner_references):
            return None
        self._queue.add((owner.namespace, owner.name), _TAKEN_S)
        return managed(f"Deployment {owner.namespace}/{owner.name}", owner)

    async def _reread(self, target: Target, live: dict[Name, Live]) -> Live | None:
        client, kind, namespace, name = self._cluster.client, target.resource.kind, target.namespace, target.name
        found: Entry[LiveSet] | Entry[LiveService] | Unreadable | None
        if kind == "DaemonSet":
            found = await get(client, SETS, namespace, name)
        else:
            found = await get(client, SERVICE, namespace, name)
        live.pop((kind, name), None)
        if found is None or isinstance(found, Unreadable):
            return None
        item: Live = found.value
        live[kind, name] = item
        return item

    async def _creation(self, key: Key, wanted: list[Child], live: dict[Name, Live]) -> Trouble | None:
        """Why pods of our DaemonSets can't be made, once that has lasted; and a push for their controller."""
        now_s = asyncio.get_running_loop().time()
        for child in wanted:
            item = live.get((child.target.resource.kind, child.target.name))
            behind_s = self._failures.look(item, now_s) if isinstance(item, LiveSet) else None
            if behind_s is None or not isinstance(item, LiveSet):
                continue
            if behind_s < ASK_AFTER_S:
                self._queue.add(key, ASK_AFTER_S)
                continue
            self._queue.add(key, ASK_EVERY_S)
            why = await reading.creation_failure(self._cluster.client, key[0], item.metadata.uid)
            if why is None:
                continue
            if self._failures.touch(item.metadata.uid, now_s):
                await self._touch(child, item)
            quota = Reason.QUOTA_EXCEEDED if "exceeded quota" in why else Reason.CREATE_REFUSED
            status = item.status
            missing = status.desired_number_scheduled - status.current_number_scheduled
            return Trouble(quota, f"{missing} of {status.desired_number_scheduled} caches can't be made: {why}")
        return None

    async def _touch(self, child: Child, item: LiveSet) -> None:
        annotations = {**child.body["metadata"]["annotations"], TOUCHED: self._desk.now().isoformat()}
        body = {**child.body, "metadata": {**child.body["metadata"], "annotations": annotations}}
        await self._cluster.apply(replace(child.target, uid=item.metadata.uid), body)


def _target(write: Write) -> Target:
    return write.child.target if isinstance(write, Create | Apply) else write.target
