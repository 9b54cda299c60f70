"""What the manifests of the install may never grant or leave open, read from the files themselves."""

from pathlib import Path
from typing import Any

import pytest
import yaml

K8S = Path(__file__).parents[3] / "k8s"
OBJECTS: list[dict[str, Any]] = [
    document
    for path in sorted(K8S.rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if isinstance(document, dict) and path.name != "kvcaches.yaml" and "patches" not in document
]
ROLES = [one for one in OBJECTS if one["kind"] in {"Role", "ClusterRole"}]
WORKLOADS = [one for one in OBJECTS if one["kind"] in {"Deployment", "DaemonSet", "StatefulSet"}]
FORBIDDEN = {
    ("secrets", None),
    ("pods/exec", None),
    ("pods/attach", None),
    ("pods/portforward", None),
    ("pods/ephemeralcontainers", None),
    ("nodes/proxy", None),
    ("serviceaccounts/token", None),
    ("certificatesigningrequests/approval", None),
    (None, "escalate"),
    (None, "bind"),
    (None, "impersonate"),
    (None, "deletecollection"),
}
"""Resource and verb; None stands for any."""


def ids(objects: list[dict[str, Any]]) -> list[str]:
    return [f"{one['kind']}/{one['metadata']['name']}" for one in objects]


@pytest.mark.parametrize("role", ROLES, ids=ids(ROLES))
def test_no_role_has_wildcards_secrets_exec_or_a_way_to_more_rights(role: dict[str, Any]) -> None:
    for rule in role["rules"]:
        assert not any("*" in word for key in ("apiGroups", "resources", "verbs") for word in rule[key])
        assert "nonResourceURLs" not in rule
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                assert not {(resource, None), (None, verb), (resource, verb)} & FORBIDDEN
        writes = {"create", "update", "patch", "delete"} & set(rule["verbs"])
        if "rbac.authorization.k8s.io" in rule["apiGroups"] or "admissionregistration.k8s.io" in rule["apiGroups"]:
            assert not writes


def test_roles_are_bound_to_their_own_service_alone_and_the_agent_and_nats_have_none() -> None:
    bindings = [one for one in OBJECTS if one["kind"] in {"RoleBinding", "ClusterRoleBinding"}]
    pairs = [(one["roleRef"]["name"], subject) for one in bindings for subject in one["subjects"]]
    bound = {(role, subject["kind"], subject["name"]) for role, subject in pairs}
    assert bound == {
        ("kvberth-placement", "ServiceAccount", "placement"),
        ("placement", "ServiceAccount", "placement"),
        ("kvberth-pod-watcher", "ServiceAccount", "pod-watcher"),
        ("pod-watcher", "ServiceAccount", "pod-watcher"),
    }


@pytest.mark.parametrize("workload", WORKLOADS, ids=ids(WORKLOADS))
def test_every_workload_is_confined(workload: dict[str, Any]) -> None:
    pod = workload["spec"]["template"]["spec"]
    name = workload["metadata"]["name"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["serviceAccountName"] == name
    if name in {"nats", "kvberth-node"}:  # they ask no API server
        assert pod["automountServiceAccountToken"] is False
    if name != "kvberth-node":  # docs/deploy.md says why it is root, without any capability
        assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["priorityClassName"] == ("system-node-critical" if name == "kvberth-node" else "system-cluster-critical")
    host_paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    assert host_paths == (["/var/run/vineyard-kubernetes"] if name == "kvberth-node" else [])
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
    assert all("sizeLimit" in volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume)


def test_whatever_no_network_policy_names_is_dropped_and_what_decides_has_a_budget() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in OBJECTS if one["kind"] == "NetworkPolicy"}
    assert policies["nothing-else"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for policy in policies.values():
        assert all(rule.get("ports") for key in ("ingress", "egress") for rule in policy.get(key, []))
    budgets = {one["metadata"]["name"]: one["spec"]["maxUnavailable"] for one in OBJECTS if "Budget" in one["kind"]}
    assert budgets.items() >= {("placement", 1), ("pod-watcher", 1)}


@pytest.mark.parametrize("workload", WORKLOADS, ids=ids(WORKLOADS))
def test_replicas_are_spread_over_hosts(workload: dict[str, Any]) -> None:
    spread = workload["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
    alone = (workload["kind"], workload["metadata"]["name"]) in {("Deployment", "nats"), ("DaemonSet", "kvberth-node")}
    assert [one["topologyKey"] for one in spread] == ([] if alone else ["kubernetes.io/hostname"])
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert all(one["labelSelector"] == {"matchLabels": labels} for one in spread)
