"""The engines of one namespace, indexed as plans look at them: alike ones together, by node. No I/O.

Kept up to date pod by pod, so that a plan looks at kinds of engines and at nodes, never at every pod.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from kvberth.placement.states import DepartedEngine, Engine, EngineGroup, EngineProcess, WorkloadKey

_Kind = tuple[str, tuple[str, ...]]


class EngineIndex:
    """What a namespace has of engines: pods, those that left, and living processes."""

    def __init__(self) -> None:
        """Know nothing."""
        self._pods: dict[str, Engine] = {}
        self._groups: dict[_Kind, EngineGroup] = {}
        self._bound: Counter[WorkloadKey] = Counter()
        self._processes: dict[str, dict[str, EngineProcess]] = {}
        self._orphans: set[str] = set()
        self.departed: dict[str, DepartedEngine] = {}
        """By uid."""

    @property
    def known(self) -> int:
        """How many pods and processes are remembered, those that left included."""
        return len(self._pods) + len(self._processes) + len(self.departed)

    @property
    def groups(self) -> tuple[EngineGroup, ...]:
        """Engines that look alike, together. Valid until the next change."""
        return tuple(self._groups.values())

    @property
    def bound(self) -> Mapping[WorkloadKey, int]:
        """How many engines of each workload are bound and stay. Valid until the next change."""
        return self._bound

    @property
    def orphans(self) -> Iterable[EngineProcess]:
        """Living processes whose pods are bound nowhere: gone, or never heard of."""
        return (process for uid in self._orphans for process in self._processes[uid].values())

    def put(self, uid: str, engine: Engine | None) -> Engine | None:
        """Put or remove a pod; return what it was before."""
        old = self._pods.pop(uid, None)
        if old is not None:
            self._leave(old)
        if engine is not None:
            self._pods[uid] = engine
            self._join(engine)
            self.departed.pop(uid, None)
        self._adopt_or_orphan(uid)
        return old

    def put_process(self, uid: str, node: str, process: EngineProcess | None) -> None:
        """Note a living process of an engine on a node (None: none lives there)."""
        here = self._processes.setdefault(uid, {})
        here.pop(node, None)
        if process is not None:
            here[node] = process
        if not here:
            del self._processes[uid]
        self._adopt_or_orphan(uid)

    def _adopt_or_orphan(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if uid in self._processes and (pod is None or pod.node is None):
            self._orphans.add(uid)
        else:
            self._orphans.discard(uid)

    def _join(self, engine: Engine) -> None:
        kind = (engine.model, engine.host_paths)
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = EngineGroup(*kind, {}, {}, {})
        if engine.node is None:
            group.waiting[engine.uid] = engine
            return
        here = group.ending if engine.deleting else group.bound
        here[engine.node] = (*here.get(engine.node, ()), engine)
        if engine.workload is not None and not engine.deleting:
            self._bound[engine.workload] += 1

    def _leave(self, engine: Engine) -> None:
        kind = (engine.model, engine.host_paths)
        group = self._groups[kind]
        group.waiting.pop(engine.uid, None)
        if engine.node is not None:
            here = group.ending if engine.deleting else group.bound
            rest = tuple(other for other in here.pop(engine.node) if other.uid != engine.uid)
            here.update({engine.node: rest} if rest else {})
            if engine.workload is not None and not engine.deleting:
                self._bound[engine.workload] -= 1
        if not (group.bound or group.ending or group.waiting):
            del self._groups[kind]
