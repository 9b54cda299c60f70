"""All that the scheduler remembers, as one immutable value: what requests, evidence and time turn into the next one.

Pure. The store writes what differs between two states; nobody changes one in place.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from kvberth.bare.scheduler.records import ManifestRecord, NodeRecord, PodRecord, Record

Key = tuple[str, str, str]
WORKLOAD_KINDS = ("Deployment", "StatefulSet")


@dataclass(frozen=True, slots=True)
class State:
    """Manifests by (kind, namespace, name), pods by uid, nodes by name."""

    manifests: Mapping[Key, ManifestRecord] = field(default_factory=dict)
    pods: Mapping[str, PodRecord] = field(default_factory=dict)
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)

    def put(self, *records: Record) -> "State":
        """Return the state with these records in place of those of the same name."""
        manifests, pods, nodes = dict(self.manifests), dict(self.pods), dict(self.nodes)
        for record in records:
            if isinstance(record, ManifestRecord):
                manifests[record.key] = record
            elif isinstance(record, PodRecord):
                pods[record.uid] = record
            elif isinstance(record, NodeRecord):
                nodes[record.name] = record
        return State(manifests, pods, nodes)

    def without_node(self, name: str) -> "State":
        """Return the state without a node."""
        return replace(self, nodes={key: node for key, node in self.nodes.items() if key != name})

    def without(self, manifests: Iterable[Key] = (), pods: Iterable[str] = ()) -> "State":
        """Return the state without some manifests and pods."""
        no_manifests, no_pods = set(manifests), set(pods)
        return replace(
            self,
            manifests={key: item for key, item in self.manifests.items() if key not in no_manifests},
            pods={uid: pod for uid, pod in self.pods.items() if uid not in no_pods},
        )

    def manifest(self, key: Key) -> ManifestRecord | None:
        """Return a manifest that was not deleted."""
        found = self.manifests.get(key)
        return found if found is not None and found.gone is None else None

    def workloads(self) -> Iterator[ManifestRecord]:
        """Yield the Deployments and StatefulSets, in the order of their names."""
        for key in sorted(self.manifests):
            if key[0] in WORKLOAD_KINDS and self.manifests[key].gone is None:
                yield self.manifests[key]

    def pods_of(self, key: Key) -> list[PodRecord]:
        """Return the pods of a workload that are not gone, oldest first."""
        return _by_age(pod for pod in self.pods.values() if pod.alive and pod.belongs_to == key)

    def pods_on(self, node: str) -> list[PodRecord]:
        """Return the pods that are bound to a node and not gone, oldest first."""
        return _by_age(pod for pod in self.pods.values() if pod.alive and pod.node == node)


def _by_age(pods: Iterable[PodRecord]) -> list[PodRecord]:
    return sorted(pods, key=lambda pod: (pod.created, pod.name, pod.uid))
