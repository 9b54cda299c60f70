"""What all namespaces share: nodes, what is promised on them, label values, engines by model. No I/O.

Kept up to date change by change, since a cluster has thousands of nodes and a plan is about one namespace.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from kvberth.placement.snapshot import Cluster
from kvberth.placement.states import Cache, Engine, Node
from kvberth_schemas.events import Resources


class ClusterIndex:
    """The shared part of every snapshot."""

    def __init__(self) -> None:
        """Know nothing."""
        self._nodes: dict[str, Node] = {}
        self._promises: dict[str, dict[tuple[str, str], Resources]] = defaultdict(dict)
        self._promised: dict[str, Resources] = {}
        self._label_values: Mapping[str, frozenset[str]] | None = None
        self._largest_memory: int | None = None
        self._engines: dict[str, Counter[str]] = defaultdict(Counter)
        self._on_node: dict[str, Counter[str]] = defaultdict(Counter)
        self._caches: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def view(self, unreadable: frozenset[str]) -> Cluster:
        """Return it as part of a snapshot: valid until the next change."""
        if self._label_values is None:
            self._label_values = self._collect_label_values()
            memories = (node.allocatable.memory_bytes for node in self._nodes.values())
            self._largest_memory = max(memories, default=None)
        return Cluster(self._nodes, self._promised, self._label_values, self._engines, unreadable, self._largest_memory)

    def set_node(self, name: str, node: Node | None) -> bool:
        """Put or remove a node; tell whether that can matter to KVCaches that have nothing on it."""
        old = self._nodes.pop(name, None)
        if node is not None:
            self._nodes[name] = node
        changed = (old is None) != (node is None) or (
            old is not None and node is not None and (old.labels != node.labels or old.allocatable != node.allocatable)
        )
        if changed:
            self._label_values = None
        return changed

    def count_engine(self, namespace: str, old: Engine | None, new: Engine | None) -> bool:
        """Count an engine; tell whether the number of its model changed."""
        for engine, step in ((new, 1), (old, -1)):
            if engine is None:
                continue
            _count(self._engines, engine.model, namespace, step)
            if engine.node is not None:
                _count(self._on_node, engine.node, namespace, step)
        return (old.model if old else None) != (new.model if new else None)

    def set_cache(self, node: str, namespace: str, kvcache: str, cache: Cache) -> bool:
        """Note a cache; tell whether what is promised on its node changed."""
        key = (namespace, kvcache)
        wanted = cache.wanted
        here = self._caches[node]
        here.discard(key)
        if wanted is not None or cache.process is not None or cache.socket is not None:
            here.add(key)
        if not here:
            del self._caches[node]
        new = None
        if wanted is not None and wanted.run and not cache.running:
            new = Resources(memory_bytes=wanted.memory_bytes, cpu_millis=wanted.cpu_millis)
        return self._promise(node, key, new)

    def namespaces_on(self, node: str) -> set[str]:
        """Return the namespaces that have engines or caches on a node."""
        return {*self._on_node.get(node, ()), *(namespace for namespace, _ in self._caches.get(node, ()))}

    def _promise(self, node: str, key: tuple[str, str], new: Resources | None) -> bool:
        promises = self._promises[node]
        old = promises.pop(key, None)
        if new is not None:
            promises[key] = new
        if not promises:
            del self._promises[node]
            self._promised.pop(node, None)
        elif old != new:
            self._promised[node] = Resources(
                memory_bytes=sum(item.memory_bytes for item in promises.values()),
                cpu_millis=sum(item.cpu_millis for item in promises.values()),
            )
        return old != new

    def _collect_label_values(self) -> Mapping[str, frozenset[str]]:
        values: dict[str, set[str]] = defaultdict(set)
        for node in self._nodes.values():
            for key, value in node.labels.items():
                values[key].add(value)
        return {key: frozenset(found) for key, found in values.items()}


def _count(counts: dict[str, Counter[str]], name: str, namespace: str, step: int) -> None:
    """Count, and remember nothing of what there is none of any more."""
    count = counts[name]
    count[namespace] += step
    if not count[namespace]:
        del count[namespace]
    if not count:
        del counts[name]
