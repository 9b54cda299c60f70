"""All that is known of the cluster, and what there is to say about any one thing. No I/O.

It is fed on every replica, leading or not, so that a new leader speaks at once and knows what ended before its term.
What can't be read is kept as it was: unknown, never absent.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kvberth.kube import Key
from kvberth.pod_watcher import nodes
from kvberth.pod_watcher.kvcaches import kvcache_gone
from kvberth.pod_watcher.owned import Owned, OwnerKey, as_owner, is_climbed
from kvberth.pod_watcher.pods import Pod, pod_event, pod_gone
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    KVCacheSpecV1,
    NodeChangedV1,
    NodeGoneV1,
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodState,
    Resources,
)
from kvberth_schemas.model import Event
from kvberth_schemas.subjects import Entity, EventSubject

_DELETED: Final = "it was deleted"
_NOT_FOUND: Final = "it was not found"
_NO_SUBJECT: Final = "it has neither the label of an engine or a cache nor a cache's directory any more"
_ENDED: Final = 1000
_NOTHING: Final = Resources()


@dataclass(slots=True)
class _Held:
    uid: str
    pod: Pod
    was_ready: bool = False


class Index:
    """Pods, nodes and KVCaches as they are now."""

    def __init__(self, watches: Callable[[str | None], bool] = lambda _: True, most_ended: int = _ENDED) -> None:
        """`watches` tells whether a namespace is watched; of more than `most_ended` ended things the oldest fade."""
        self.owned = Owned()
        self._watches, self._most_ended = watches, most_ended
        self._pods: dict[Key, _Held] = {}
        self._spoken: dict[EventSubject, _Held] = {}
        self._nodes: dict[str, NodeChangedV1] = {}
        self._requested: dict[str, Resources] = {}
        self._kvcaches: dict[EventSubject, KVCacheSpecV1] = {}
        self._unreadable: dict[tuple[Entity, Key], EventSubject] = {}
        self._ended: OrderedDict[EventSubject, Event] = OrderedDict()
        self._touched: dict[EventSubject, None] = {}

    # What the watches tell.

    def see_pod(self, key: Key, uid: str, pod: Pod) -> None:
        """A pod is there, as `pod` says."""
        before = self._pods.get(key)
        held = self._pods[key] = _Held(uid, pod, was_ready=before is not None and before.was_ready)
        self._count(before.pod if before else None, pod)
        self._unreadable.pop((Entity.POD, key), None)
        subject = subjects.pod(key.namespace, uid)
        if pod.subject is not None:
            held.was_ready = held.was_ready or pod.subject.state.ready
            self._speak_of(subject, held, before)
        elif subject in self._spoken and before is not None:
            self._end_pod(subject, before, _NO_SUBJECT)

    def lose_pod(self, key: Key) -> None:
        """A pod is no longer there."""
        self._unreadable.pop((Entity.POD, key), None)
        held = self._pods.pop(key, None)
        if held is None:
            return
        self._count(held.pod, None)
        subject = subjects.pod(key.namespace, held.uid)
        if subject in self._spoken:
            self._end_pod(subject, held, held.pod.finished or _DELETED)

    def see_node(self, node: NodeChangedV1) -> None:
        """A node is there."""
        self._unreadable.pop((Entity.NODE, Key("", node.name)), None)
        self._nodes[node.name] = node
        self._begin(subjects.node(node.name))

    def lose_node(self, name: str) -> None:
        """A node is no longer there."""
        self._unreadable.pop((Entity.NODE, Key("", name)), None)
        if self._nodes.pop(name, None) is not None:
            self._end(subjects.node(name), NodeGoneV1(name=name, why=_DELETED))

    def see_kvcache(self, kvcache: KVCacheSpecV1) -> None:
        """A KVCache is there."""
        subject = subjects.spec(kvcache.namespace, kvcache.name)
        self._unreadable.pop((Entity.SPEC, Key(kvcache.namespace, kvcache.name)), None)
        self._kvcaches[subject] = kvcache
        self._begin(subject)

    def lose_kvcache(self, key: Key) -> None:
        """A KVCache is no longer there: the deletion of a live object is its user's word."""
        self._unreadable.pop((Entity.SPEC, key), None)
        subject = subjects.spec(key.namespace, key.name)
        spec = self._kvcaches.pop(subject, None)
        if spec is not None:
            self._end(subject, kvcache_gone(spec, _DELETED, by_user=True))

    def cannot_read(self, key: Key, subject: EventSubject) -> None:
        """Something is there that can't be read: what was said of it stays."""
        self._unreadable[subject.entity, key] = subject

    def answer(self, key: OwnerKey, owner: Owner | None) -> None:
        """Take the top owner of a controller's pods, None where it could not be read in time."""
        for uid in self.owned.answer(key, owner):
            self._touched[subjects.pod(key.namespace, uid)] = None

    # What there is to say.

    @property
    def whole(self) -> bool:
        """Whether everything that was told can be said, and was asked for: nothing waits."""
        return not self._touched and not self.owned.unanswered

    def take_touched(self, most: int | None = None) -> list[EventSubject]:
        """Return what changed since it was last taken, in order; at most so much of it."""
        taken = list(islice(self._touched, most))
        for subject in taken:
            del self._touched[subject]
        return taken

    def touch_all(self) -> None:
        """Let everything that is there be said."""
        self._touched = dict.fromkeys([*self._spoken, *map(subjects.node, self._nodes), *self._kvcaches])

    def remember(self, subject: EventSubject, said: Event) -> None:
        """Take what an earlier life said: a pod that it called ready has been so."""
        if isinstance(said, PodReadyV1) and subject in self._spoken:
            self._spoken[subject].was_ready = True

    def event(self, subject: EventSubject) -> Event | None:
        """Return what there is to say about a thing now; None: nothing, or nothing yet."""
        if subject in self._spoken:
            return self._pod_event(self._spoken[subject])
        if subject in self._kvcaches:
            return self._kvcaches[subject]
        if subject.entity is Entity.NODE and subject.object in self._nodes:
            node = self._nodes[subject.object]
            return nodes.node_event(node, self._requested.get(node.name, _NOTHING))
        return self._ended.get(subject)

    def is_there(self, subject: EventSubject) -> bool:
        """Whether a thing lives that is spoken of, even if nothing can be said about it yet."""
        known_node = subject.entity is Entity.NODE and subject.object in self._nodes
        return known_node or subject in self._spoken or subject in self._kvcaches

    def gone(self, subject: EventSubject, said: Event) -> Event | None:
        """Return the end of something that the bus has and that was not put; None: leave it alone.

        What ended while this replica watched ended for the reason that was seen, whoever led; the rest was not found.
        """
        if subject in self._unreadable.values() or not self._watches(subject.namespace):
            return None
        if subject in self._ended:
            return self._ended[subject]
        if self.is_there(subject):
            return None
        return _not_found(said)

    def _pod_event(self, held: _Held) -> Event | None:
        key = _owner_key(held)
        if self.owned.holds_back(key):
            return None
        workload = self._workload(held)
        if held.pod.finished:
            return pod_gone(held.pod, workload, held.pod.finished)
        return pod_event(held.pod, workload, was_ready=held.was_ready)

    def _workload(self, held: _Held) -> Owner | None:
        key, subject = _owner_key(held), held.pod.subject
        if key is not None:
            return self.owned.top(key)
        return as_owner(subject.controller) if subject is not None and subject.controller is not None else None

    def _speak_of(self, subject: EventSubject, held: _Held, before: _Held | None) -> None:
        self._spoken[subject] = held
        key, old = _owner_key(held), _owner_key(before) if before else None
        if old is not None and old != key:
            self.owned.leave(old, held.uid)
        news = before is None or old != key or _leaving(held) != _leaving(before) or before.pod is held.pod
        if key is not None and news:
            self.owned.come(key, held.uid)
        self._begin(subject)

    def _end_pod(self, subject: EventSubject, held: _Held, why: str) -> None:
        if held.pod.subject is not None:
            self._end(subject, pod_gone(held.pod, self._workload(held), why))
        self._spoken.pop(subject, None)
        key = _owner_key(held)
        if key is not None:
            self.owned.leave(key, held.uid)

    def _begin(self, subject: EventSubject) -> None:
        self._ended.pop(subject, None)
        self._touched[subject] = None

    def _end(self, subject: EventSubject, event: Event) -> None:
        self._ended[subject] = event
        self._touched[subject] = None
        while len(self._ended) > self._most_ended:
            faded, _ = self._ended.popitem(last=False)
            self._touched[faded] = None  # nothing is said of it any more

    def _count(self, before: Pod | None, now: Pod | None) -> None:
        for pod, sign in ((before, -1), (now, 1)):
            if pod is None or pod.node is None or pod.finished:
                continue
            total = _plus(self._requested.get(pod.node, _NOTHING), pod.requests, sign)
            if total == _NOTHING:
                self._requested.pop(pod.node, None)
            else:
                self._requested[pod.node] = total
        if before is None or now is None or _counted(before) != _counted(now):
            for node in {pod.node for pod in (before, now) if pod is not None and pod.node in self._nodes}:
                self._touched[subjects.node(node or "")] = None


def _counted(pod: Pod) -> tuple[str | None, Resources, bool]:
    return pod.node, pod.requests, bool(pod.finished)


def _plus(total: Resources, one: Resources, sign: int) -> Resources:
    return Resources(
        cpu_millis=total.cpu_millis + sign * one.cpu_millis,
        memory_bytes=total.memory_bytes + sign * one.memory_bytes,
        gpus=total.gpus + sign * one.gpus,
    )


def _leaving(held: _Held) -> bool:
    return held.pod.subject is not None and held.pod.subject.state.deleting


def _owner_key(held: _Held) -> OwnerKey | None:
    subject = held.pod.subject
    if subject is None or subject.controller is None or not is_climbed(subject.controller):
        return None
    reference = subject.controller
    return OwnerKey(subject.state.namespace, reference.kind, reference.name, reference.uid)


def _not_found(said: Event) -> Event | None:
    if isinstance(said, PodState):
        return PodGoneV1.after(said, _NOT_FOUND, resource_version=said.resource_version)
    if isinstance(said, NodeChangedV1):
        return NodeGoneV1(name=said.name, why=_NOT_FOUND)
    if isinstance(said, KVCacheSpecV1):
        return kvcache_gone(said, _NOT_FOUND, by_user=False)
    return None
