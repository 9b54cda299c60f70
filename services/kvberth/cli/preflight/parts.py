"""What `kubectl apply -k k8s/overlays/default`, or `ha`, makes: kinds to have rights for and names to find free. Pure.

A test holds this table against the manifests.
"""

from dataclasses import dataclass
from typing import Final

from kvberth.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    KVCACHES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kvberth_schemas.crd import LABELS

NAMESPACE: Final = "kvberth"
DEFINITION: Final = f"{KVCACHES.plural}.{KVCACHES.group}"
PART_OF: Final = "app.kubernetes.io/part-of"
OURS: Final = LABELS[PART_OF]

ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
FENCES: Final = Resource(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
FENCE_BINDINGS: Final = Resource(
    ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)
GATES: Final = Resource(ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False)
GATE_BINDINGS: Final = Resource(
    ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", namespaced=False
)
CLUSTER_ROLES: Final = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES: Final = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")

NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")


@dataclass(frozen=True, slots=True)
class Part:
    """Objects of one kind that the install makes; namespaced ones are in `NAMESPACE`."""

    resource: Resource
    names: tuple[str, ...] = ()
    """Empty where names are made anew for each content."""


PARTS: Final = (
    Part(NAMESPACES, (NAMESPACE,)),
    Part(CRDS, (DEFINITION,)),
    Part(FENCES, ("kvberth-fence", "kvberth-fence-status", "kvberth-own", "kvberth-evictions")),
    Part(FENCE_BINDINGS, ("kvberth-fence", "kvberth-fence-status", "kvberth-own", "kvberth-evictions")),
    Part(CLUSTER_ROLES, ("kvberth-placement", "kvberth-pod-watcher")),
    Part(CLUSTER_ROLE_BINDINGS, ("kvberth-placement", "kvberth-pod-watcher")),
    Part(ROLES, ("placement", "pod-watcher")),
    Part(ROLE_BINDINGS, ("placement", "pod-watcher")),
    Part(SERVICE_ACCOUNTS, ("nats", "kvberth-node", "placement", "pod-watcher")),
    Part(CONFIG_MAPS),
    Part(SERVICES, ("nats",)),
    Part(DEPLOYMENTS, ("nats", "placement", "pod-watcher")),
    Part(DAEMON_SETS, ("kvberth-node",)),
    Part(POD_DISRUPTION_BUDGETS, ("placement", "pod-watcher")),
    Part(NETWORK_POLICIES, ("nothing-else", "nats", "to-nats", "to-the-api-server", "metrics")),
)
GATE_PARTS: Final = (
    Part(GATES, ("kvberth-gate",)),
    Part(GATE_BINDINGS, ("kvberth-gate",)),
)
"""Asked about only where the API server serves such policies."""
HA_PARTS: Final = (
    Part(SERVICES, ("nats-peers",)),
    Part(STATEFUL_SETS, ("nats",)),
    Part(POD_DISRUPTION_BUDGETS, ("nats",)),
    Part(NETWORK_POLICIES, ("nats-peers",)),
)
"""What the overlay `ha` makes beside them; its StatefulSet stands in for the Deployment of NATS."""
