"""Which engines each KVCache of a namespace follows, and where they are. Pure.

The rule of one engine is `kvberth.kvcache.assign`; this module asks it once for all engines that look alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kvberth import kvcache
from kvberth.kvcache import Assignment, Claim, host_directory, name_complaints
from kvberth.placement.reach import mounts_another, no_mount_sentence
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import DepartedEngine, Engine, EngineGroup, KVCache, WorkloadKey

Beside = Mapping[str, tuple[Engine, ...]]
"""Engines by node. May be the index's own: never changed here."""


@dataclass(slots=True)
class Following:
    """The engines of one KVCache, by node."""

    bound: Beside = field(default_factory=dict)
    ending: Beside = field(default_factory=dict)
    """Bound and deleting: they still use their sockets."""
    users: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Others that may be using a cache of this KVCache: living processes whose pods are gone or were never heard of,
    and engines that mount its directory though they belong elsewhere."""
    astray: dict[str, list[Engine]] = field(default_factory=lambda: defaultdict(list))
    """Those of `bound` that mount another directory: no cache of this KVCache serves them."""
    departed: dict[str, list[DepartedEngine]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[Engine] = field(default_factory=list)
    engine_count: int = 0
    """Engines that are bound and stay."""
    conflicts: set[str] = field(default_factory=set)
    """Sentences about what it claims and another KVCache serves."""
    remarks: set[str] = field(default_factory=set)

    def holds(self, node: str) -> bool:
        """Whether an engine on that node may be using a cache there."""
        return node in self.bound or node in self.ending or node in self.users


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
    for group in snapshot.engines:
        _sort_in_waiting(group, assigner, following)
        for part in assigner.parts(group):
            _sort_in(part, assigner, following)
    for process in snapshot.orphans:
        for owner in assigner.users(process.model, process.host_paths, process.node):
            following[owner].users[process.node].add(process.uid)
    for gone in snapshot.departed:
        owner_of_gone = assigner.of(gone.model, (), gone.node).kvcache
        if owner_of_gone is not None and gone.node is not None:
            following[owner_of_gone].departed[gone.node].append(gone)
    _sort_in_rivals(assigner, following)
    return Membership(following, snapshot.bound)


@dataclass(frozen=True, slots=True)
class _Part:
    """The engines of a group whose nodes look alike, too; `node` is any of those nodes."""

    model: str
    host_paths: tuple[str, ...]
    node: str
    bound: Beside
    ending: Beside


def _sort_in_waiting(group: EngineGroup, assigner: "_Assigner", following: dict[str, Following]) -> None:
    """A KVCache for one GPU type can't know whether a waiting engine will be its own: it says that one waits."""
    if group.waiting:
        owner = assigner.of(group.model, group.host_paths, None).kvcache
        for name in (owner,) if owner else assigner.claimants(group.model):
            following[name].waiting.extend(group.waiting.values())


def _sort_in(part: _Part, assigner: "_Assigner", following: dict[str, Following]) -> None:
    assignment = assigner.of(part.model, part.host_paths, part.node)
    owner = assignment.kvcache
    for name in assigner.users(part.model, part.host_paths, part.node):
        if name != owner:
            for node, engines in (*part.bound.items(), *part.ending.items()):
                following[name].users[node].update(engine.uid for engine in engines)
    if owner is None:
        for name in assigner.claimants(part.model):
            following[name].remarks.add(assignment.message)
        return
    mine = following[owner]
    mine.bound = _together(mine.bound, part.bound)
    mine.ending = _together(mine.ending, part.ending)
    mine.engine_count += sum(map(len, part.bound.values()))
    _note_mounts(part, owner, mine, assigner.namespace)
    if assignment.message:
        mine.remarks.add(assignment.message)
    for name in assignment.superseded:
        following[name].conflicts.add(_superseded(owner, assignment.message))


def _note_mounts(part: _Part, owner: str, mine: Following, namespace: str) -> None:
    if not part.host_paths and part.bound:
        mine.remarks.add(no_mount_sentence(part.model, namespace, owner))
    elif mounts_another(part.host_paths, host_directory(namespace, owner)):
        for node, engines in part.bound.items():
            mine.astray[node].extend(engines)


def _sort_in_rivals(assigner: "_Assigner", following: dict[str, Following]) -> None:
    """A conflict is one before any engine is there; engines that are there have said which KVCache serves."""
    for rival in kvcache.rivals(assigner.claims):
        older, younger = following[rival.older], following[rival.younger]
        if younger.bound or younger.ending or younger.conflicts or older.conflicts:
            continue
        younger.conflicts.add(_superseded(rival.older, rival.message))
        older.remarks.add(rival.message)


def _superseded(by: str, message: str) -> str:
    return f"superseded by {by}: {message}; delete one of them, or give it a workload of its own"


def _together(one: Beside, other: Beside) -> Beside:
    if not one or not other:
        return one or other
    both = dict(one)
    for node, engines in other.items():
        both[node] = (*both[node], *engines) if node in both else engines
    return both


class _Assigner:
    """Asks `assign` once per kind of engine: model, directories and the node's labels that any KVCache looks at."""

    def __init__(self, snapshot: Snapshot, kvcaches: tuple[KVCache, ...]) -> None:
        specs = [item.spec for item in kvcaches if item.spec is not None]
        self.namespace = snapshot.namespace
        self._nodes = snapshot.cluster.nodes
        self.claims = [Claim(spec, created=age) for age, spec in enumerate(specs)]
        self._keys = tuple(sorted({spec.gpu_label_key for spec in specs if spec.gpu_type is not None}))
        self._by_workload: dict[str, list[str]] = defaultdict(list)
        for spec in specs:
            if spec.workload is not None:
                self._by_workload[spec.workload].append(spec.name)
        self._known: dict[tuple[object, ...], Assignment] = {}
        self._names = frozenset(item.name for item in kvcaches)
        self._users: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._values: dict[str | None, object] = {None: None}

    def parts(self, group: EngineGroup) -> Iterator[_Part]:
        """Split a group by what KVCaches look at of nodes."""
        if not self._keys:
            some = next(iter(group.bound), None) or next(iter(group.ending), None)
            if some is not None:
                yield _Part(group.model, group.host_paths, some, group.bound, group.ending)
            return
        by_values: dict[object, set[str]] = defaultdict(set)
        for node in {*group.bound, *group.ending}:
            by_values[self._label_values(node)].add(node)
        for alike in by_values.values():
            bound = {node: engines for node, engines in group.bound.items() if node in alike}
            ending = {node: engines for node, engines in group.ending.items() if node in alike}
            yield _Part(group.model, group.host_paths, next(iter(alike)), bound, ending)

    def of(self, model: str, host_paths: tuple[str, ...], node: str | None) -> Assignment:
        key = (model, host_paths, self._label_values(node))
        known = self._known.get(key)
        if known is None:
            known = kvcache.assign(self._engine(model, host_paths, node), self.claims)
            self._known[key] = known
        return known

    def users(self, model: str, host_paths: tuple[str, ...], node: str) -> tuple[str, ...]:
        """The KVCaches whose caches an engine may be using: its own, and those whose directories it mounts."""
        key = (model, host_paths, self._label_values(node))
        known = self._users.get(key)
        if known is None:
            own = self.of(model, host_paths, node).kvcache
            mounted = kvcache.Engine(model, self.namespace, host_paths).directories
            known = tuple(name for name in dict.fromkeys((own, *mounted)) if name is not None and name in self._names)
            self._users[key] = known
        return known

    def claimants(self, model: str) -> list[str]:
        return self._by_workload.get(model, [])

    def _engine(self, model: str, host_paths: tuple[str, ...], node: str | None) -> kvcache.Engine:
        labels = None if node is None else self._labels(node)
        return kvcache.Engine(model, self.namespace, host_paths, labels)

    def _labels(self, node: str) -> Mapping[str, str]:
        found = self._nodes.get(node)
        return found.labels if found is not None else {}

    def _label_values(self, node: str | None) -> object:
        if node not in self._values:
            labels = self._labels(node) if node is not None else {}
            self._values[node] = tuple(labels.get(key) for key in self._keys)
        return self._values[node]
