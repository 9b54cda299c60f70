"""Which engines each KVCache of a namespace follows, and where they are. Pure.

The rule of one engine is `kvberth.kvcache.assign`; this module asks it once for all engines that look alike.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kvberth import kvcache
from kvberth.kvcache import Assignment, Claim, name_complaints
from kvberth.placement.snapshot import DepartedEngine, Engine, KVCache, Snapshot, WorkloadKey


@dataclass(slots=True)
class Following:
    """The engines of one KVCache, by node."""

    bound: dict[str, list[Engine]] = field(default_factory=lambda: defaultdict(list))
    ending: dict[str, list[Engine]] = field(default_factory=lambda: defaultdict(list))
    """Bound and deleting: they still use their sockets."""
    users: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Others that may be using a cache of this KVCache: living processes whose pods are gone or were never heard of,
    and engines that mount its directory though they belong elsewhere."""
    departed: dict[str, list[DepartedEngine]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[Engine] = field(default_factory=list)
    conflicts: set[str] = field(default_factory=set)
    """Sentences about engines of its workload that another KVCache serves."""
    remarks: set[str] = field(default_factory=set)

    def holds(self, node: str) -> bool:
        """Whether an engine on that node may be using a cache there."""
        return node in self.bound or node in self.ending or node in self.users

    @property
    def engine_count(self) -> int:
        """Engines that are bound and stay."""
        return sum(len(engines) for engines in self.bound.values())


def accept_names(kvcaches: Iterable[KVCache]) -> tuple[KVCache, ...]:
    """Order KVCaches by age, and add the complaints about names that two of them would share."""
    ordered = sorted(kvcaches, key=lambda item: (item.created, item.name))
    found = name_complaints([item.spec for item in ordered if item.spec is not None and not item.off])
    return tuple(
        replace(item, spec=replace(item.spec, complaints=(*item.spec.complaints, *found[item.name])))
        if item.spec is not None and item.name in found
        else item
        for item in ordered
    )


@dataclass(frozen=True, slots=True)
class Membership:
    """What each KVCache follows, and how many engines of each workload are bound and stay."""

    of: Mapping[str, Following]
    bound: Mapping[WorkloadKey, int]


def membership(kvcaches: tuple[KVCache, ...], snapshot: Snapshot) -> Membership:
    """Return what each KVCache follows; `kvcaches` in order of age."""
    following = {item.name: Following() for item in kvcaches}
    assigner = _Assigner(snapshot, kvcaches)
    pods: set[str] = set()
    bound: Counter[WorkloadKey] = Counter()
    for engine in snapshot.engines:
        if engine.node is not None:
            pods.add(engine.uid)
            if engine.workload is not None and not engine.deleting:
                bound[engine.workload] += 1
        _sort_in(engine, assigner, following)
    for process in snapshot.processes:
        if process.uid not in pods:
            for owner in assigner.users(process.model, process.host_paths, process.node):
                following[owner].users[process.node].add(process.uid)
    for gone in snapshot.departed:
        owner_of_gone = assigner.of(gone.model, (), gone.node).kvcache
        if owner_of_gone is not None and gone.node is not None:
            following[owner_of_gone].departed[gone.node].append(gone)
    return Membership(following, bound)


def _sort_in(engine: Engine, assigner: "_Assigner", following: dict[str, Following]) -> None:
    assignment = assigner.of(engine.model, engine.host_paths, engine.node)
    owner = assignment.kvcache
    if engine.node is None:
        # A KVCache for one GPU type can't know whether the engine will be its own: it says that one waits.
        for name in (owner,) if owner else assigner.claimants(engine.model):
            following[name].waiting.append(engine)
        return
    for name in assigner.users(engine.model, engine.host_paths, engine.node):
        if name != owner:
            following[name].users[engine.node].add(engine.uid)
    if owner is None:
        for name in assigner.claimants(engine.model):
            following[name].remarks.add(assignment.message)
        return
    mine = following[owner]
    (mine.ending if engine.deleting else mine.bound)[engine.node].append(engine)
    if assignment.message:
        mine.remarks.add(assignment.message)
    for name in assignment.superseded:
        following[name].conflicts.add(assignment.message)


class _Assigner:
    """Asks `assign` once per kind of engine: model, directories and the node's labels that any KVCache looks at."""

    def __init__(self, snapshot: Snapshot, kvcaches: tuple[KVCache, ...]) -> None:
        specs = [item.spec for item in kvcaches if item.spec is not None]
        self._namespace = snapshot.namespace
        self._nodes = snapshot.cluster.nodes
        self._claims = [Claim(spec, created=age) for age, spec in enumerate(specs)]
        self._keys = tuple(sorted({spec.gpu_label_key for spec in specs if spec.gpu_type is not None}))
        self._by_workload: dict[str, list[str]] = defaultdict(list)
        for spec in specs:
            if spec.workload is not None:
                self._by_workload[spec.workload].append(spec.name)
        self._known: dict[tuple[object, ...], Assignment] = {}
        self._names = frozenset(item.name for item in kvcaches)
        self._users: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._values: dict[str | None, object] = {None: None}

    def of(self, model: str, host_paths: tuple[str, ...], node: str | None) -> Assignment:
        key = (model, host_paths, self._label_values(node))
        known = self._known.get(key)
        if known is None:
            known = kvcache.assign(self._engine(model, host_paths, node), self._claims)
            self._known[key] = known
        return known

    def users(self, model: str, host_paths: tuple[str, ...], node: str) -> tuple[str, ...]:
        """The KVCaches whose caches an engine may be using: its own, and those whose directories it mounts."""
        key = (model, host_paths, self._label_values(node))
        known = self._users.get(key)
        if known is None:
            own = self.of(model, host_paths, node).kvcache
            mounted = kvcache.Engine(model, self._namespace, host_paths).directories
            known = tuple(name for name in dict.fromkeys((own, *mounted)) if name is not None and name in self._names)
            self._users[key] = known
        return known

    def claimants(self, model: str) -> list[str]:
        return self._by_workload.get(model, [])

    def _engine(self, model: str, host_paths: tuple[str, ...], node: str | None) -> kvcache.Engine:
        labels = None if node is None else self._labels(node)
        return kvcache.Engine(model, self._namespace, host_paths, labels)

    def _labels(self, node: str) -> Mapping[str, str]:
        found = self._nodes.get(node)
        return found.labels if found is not None else {}

    def _label_values(self, node: str | None) -> object:
        if node not in self._values:
            labels = self._labels(node) if node is not None else {}
            self._values[node] = tuple(labels.get(key) for key in self._keys)
        return self._values[node]
