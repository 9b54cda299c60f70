"""What `kubectl apply -k k8s/overlays/default` installs, on a real API server: accepted, fenced, removable."""

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from kvberth.cli.keys import keys
from kvberth.kvcache import normalise
from kvberth.placement.apply.kubernetes.render import Owner, daemon_set, sets_of
from support.api_server import ASSETS, ControlPlane, control_plane, missing_assets

OVERLAY = Path(__file__).parents[2] / "k8s" / "overlays" / "default"
POLICY_WORKS_WITHIN_S = 30.0
GONE_WITHIN_S = 60.0
AGENT_WITHIN_S = 5.0
TAKEN_IN = {
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
}


@dataclass
class Kubectl:
    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        done = self.attempt(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def attempt(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        program = Path(os.environ[ASSETS]) / "kubectl"
        return subprocess.run(
            [program, "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """The words of a refusal; empty when it was accepted."""
        done = self.attempt(*arguments, stdin=stdin)
        return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: what is deleted here with the install, others need."""
    if why := missing_assets():
        pytest.skip(why)
    with control_plane(tmp_path_factory.mktemp("install")) as running:
        yield running


@dataclass(frozen=True)
class Install:
    """What there was before it."""

    before: frozenset[str]


@pytest.fixture(scope="module")
def install(plane: ControlPlane) -> Install:
    """The overlay, installed."""
    kubectl = Kubectl(plane.kubeconfig())
    before = everything(kubectl)
    kubectl("apply", "-k", str(OVERLAY))
    return Install(before)


@pytest.fixture(scope="module")
def admin(plane: ControlPlane, install: Install) -> Kubectl:
    """The administrator of a cluster with the overlay."""
    return Kubectl(plane.kubeconfig())


def everything(kubectl: Kubectl) -> frozenset[str]:
    """Kind, namespace and name of all objects that can be listed, but Events."""
    kinds = kubectl("api-resources", "--verbs=list", "--output", "name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith("events"))
    columns = "custom-columns=A:.kind,B:.metadata.namespace,C:.metadata.name"
    found = kubectl("get", listed, "--all-namespaces", "--no-headers", "--output", columns)
    return frozenset(" ".join(line.split()) for line in found.splitlines())


@pytest.fixture(scope="module")
def objects(admin: Kubectl) -> list[dict]:
    return list(yaml.safe_load_all(admin("kustomize", str(OVERLAY))))


def test_every_object_that_is_rendered_is_there(admin: Kubectl, objects: list[dict]) -> None:
    assert len(objects) > 20
    admin("get", "--filename", "-", stdin=yaml.safe_dump_all(objects))


@pytest.mark.parametrize("overlay", ["ha", "nkeys", "ha-with-nkeys", "kind", "gpu"])
def test_the_api_server_takes_every_object_of_the_other_overlays(admin: Kubectl, tmp_path: Path, overlay: str) -> None:
    folder = shutil.copytree(OVERLAY.parents[1], tmp_path / "k8s", ignore=shutil.ignore_patterns("keys"))
    keys(folder / "components" / "nkeys" / "keys")
    own = folder / "overlays" / "ha-with-nkeys"
    own.mkdir()
    (own / "kustomization.yaml").write_text("resources: [../ha]\ncomponents: [../../components/nkeys]\n")
    rendered = admin("kustomize", str(folder / "overlays" / overlay))
    told = admin("apply", "--dry-run=server", "--filename", "-", stdin=rendered)
    rows = [one for one in yaml.safe_load_all(rendered) if one]
    assert len(told.splitlines()) == len(rows)
    there = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in rows}
    assert {(kind, "kvberth", name) for one in rows for kind, name in mounted(one)} <= there
    named = [one for one in rows if one["metadata"]["name"] == "nats"]
    nats = [one for one in named if "replicas" in one.get("spec", {})]
    assert [(one["kind"], one["spec"]["replicas"]) for one in nats] == [
        ("StatefulSet", 3) if overlay.startswith("ha") else ("Deployment", 1)
    ]


@pytest.mark.parametrize(("overlay", "with_namespace"), [("default", True), ("ha", False)])
def test_the_component_of_keys_moves_nothing_that_an_overlay_of_ones_own_holds(
    tmp_path: Path, overlay: str, with_namespace: bool
) -> None:
    if why := missing_assets():
        pytest.skip(why)
    folder = shutil.copytree(OVERLAY.parents[1], tmp_path / "k8s", ignore=shutil.ignore_patterns("keys"))
    keys(folder / "components" / "nkeys" / "keys")
    own = folder / "overlays" / "own"
    own.mkdir()
    kvcache = {"apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "KVCache", "spec": {}}
    kvcache["metadata"] = {"name": "kv", "namespace": "models"}
    models = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models"}}
    (own / "models.yaml").write_text(yaml.safe_dump_all([models, kvcache] if with_namespace else [kvcache]))
    resources = f"resources: [../{overlay}, models.yaml]\ncomponents: [../../components/nkeys]\n"
    (own / "kustomization.yaml").write_text(resources)
    rows = list(yaml.safe_load_all(Kubectl(tmp_path / "none")("kustomize", str(own))))
    where = {(one["kind"], one["metadata"]["name"]): one["metadata"].get("namespace") for one in rows}
    assert where["KVCache", "kv"] == "models"
    assert ("Namespace", "kvberth") in where
    assert (("Namespace", "models") in where) is with_namespace
    assert {space for (kind, _), space in where.items() if kind in {"Secret", "ConfigMap"}} == {"kvberth"}
    taken = {named for one in rows for named in mounted(one)}
    assert "Secret" in {kind for kind, _ in taken}
    assert taken <= set(where)


def mounted(workload: dict) -> set[tuple[str, str]]:
    """Kind and name of the Secrets and ConfigMaps that its pods take in."""
    pod = workload.get("spec", {}).get("template", {}).get("spec", {})
    sources = [one for box in pod.get("containers", []) for one in box.get("envFrom", [])]
    sources += [one.get("valueFrom", {}) for box in pod.get("containers", []) for one in box.get("env", [])]
    found = {(kind, one[key]["name"]) for one in sources for key, kind in TAKEN_IN.items() if key in one}
    volumes = pod.get("volumes", [])
    found |= {("ConfigMap", one["configMap"]["name"]) for one in volumes if "configMap" in one}
    return found | {("Secret", one["secret"]["secretName"]) for one in volumes if "secret" in one}


def test_the_policies_have_no_faults_that_the_api_server_can_find(admin: Kubectl) -> None:
    for name in ("kvberth-fence", "kvberth-fence-status", "kvberth-own", "kvberth-evictions"):
        ends = time.monotonic() + POLICY_WORKS_WITHIN_S
        while True:
            policy = json.loads(admin("get", "validatingadmissionpolicy", name, "--output", "json"))
            if policy.get("status", {}).get("observedGeneration") == policy["metadata"]["generation"]:
                break
            assert time.monotonic() < ends, policy
            time.sleep(0.1)
        assert policy["status"].get("typeChecking", {}) == {}


def test_every_container_is_confined_and_asks_for_what_it_uses(objects: list[dict]) -> None:
    for workload in (found for found in objects if found["kind"] in {"Deployment", "DaemonSet"}):
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]
            assert container["imagePullPolicy"] == "IfNotPresent"
            assert not container["image"].endswith(":latest")
            assert ":" in container["image"].rpartition("/")[2]


def test_what_decides_has_two_replicas_and_leaves_a_lost_node_in_seconds(objects: list[dict]) -> None:
    deployments = {found["metadata"]["name"]: found["spec"] for found in objects if found["kind"] == "Deployment"}
    assert {name: spec["replicas"] for name, spec in deployments.items()} == {
        "nats": 1,
        "placement": 2,
        "pod-watcher": 2,
    }
    for spec in deployments.values():
        tolerated = {one["key"]: one["tolerationSeconds"] for one in spec["template"]["spec"]["tolerations"]}
        assert tolerated == {"node.kubernetes.io/not-ready": 10, "node.kubernetes.io/unreachable": 10}


KVCACHES = "orchestration.aibrix.ai/kvcaches"
LEASES = "coordination.k8s.io/leases"


@pytest.mark.parametrize(
    ("account", "verb", "what", "allowed"),
    [
        ("placement", "patch", "apps/daemonsets", True),
        ("placement", "patch", f"{KVCACHES}/status", True),
        ("placement", "create", "/pods/eviction", True),
        ("placement", "patch", "apps/deployments", False),
        ("placement", "patch", KVCACHES, False),
        ("placement", "delete", KVCACHES, False),
        ("placement", "create", "/pods", False),
        ("placement", "get", "/secrets", False),
        ("placement", "patch", "admissionregistration.k8s.io/validatingadmissionpolicies", False),
        ("placement", "update", LEASES, False),
        ("pod-watcher", "watch", "/pods", True),
        ("pod-watcher", "watch", KVCACHES, True),
        ("pod-watcher", "patch", "apps/daemonsets", False),
        ("pod-watcher", "delete", "/pods", False),
        ("pod-watcher", "list", "/secrets", False),
        ("kvberth-node", "list", "/pods", False),
        ("kvberth-node", "get", "/nodes", False),
        ("nats", "list", "/pods", False),
    ],
)
def test_an_account_may_do_what_its_service_does_and_no_more(
    admin: Kubectl, account: str, verb: str, what: str, allowed: bool
) -> None:
    assert may(admin, account, verb, what, namespace="default") is allowed


def test_an_account_may_renew_its_own_lease_alone(admin: Kubectl) -> None:
    assert may(admin, "placement", "update", LEASES, namespace="kvberth", name="kvberth-placement")
    assert not may(admin, "placement", "update", LEASES, namespace="kvberth", name="kvberth-pod-watcher")
    assert may(admin, "pod-watcher", "update", LEASES, namespace="kvberth", name="kvberth-pod-watcher")


def may(admin: Kubectl, account: str, verb: str, what: str, **where: str) -> bool:
    """Ask the API server's authorizer: a kind need not be installed for that."""
    group, resource, *subresource = what.split("/")
    wanted = {"verb": verb, "group": group, "resource": resource, "subresource": "".join(subresource), **where}
    spec = {"user": f"system:serviceaccount:kvberth:{account}", "resourceAttributes": wanted}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(json.loads(admin("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))["status"]["allowed"])


def lease(holder: str, term: int) -> str:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": term}
    metadata = {"name": "kvberth-placement", "namespace": "kvberth"}
    return json.dumps({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


def service(name: str, term: str | None, *, ours: bool = True) -> str:
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"kvberth.dev/kvcache": "k"} if ours else {},
        "annotations": {} if term is None else {"kvberth.dev/fence": term},
    }
    return json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 1}]}})


@pytest.fixture
def placement(plane: ControlPlane, admin: Kubectl) -> tuple[Kubectl, str]:
    """A pod of placement with the token that the kubelet would give it, and its name as a holder of the Lease."""
    pods = json.loads(admin("get", "pods", "-n", "kvberth", "-l", "app.kubernetes.io/name=placement", "-o", "json"))
    name, uid = (pods["items"][0]["metadata"][field] for field in ("name", "uid"))
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}", f"--bound-object-uid={uid}")
    token = admin("create", "token", "placement", "-n", "kvberth", *bound).strip()
    return Kubectl(plane.kubeconfig("placement", token=token)), f"{name}_{uid}"


def test_placement_writes_only_its_own_and_only_while_it_holds_the_lease(
    admin: Kubectl, placement: tuple[Kubectl, str]
) -> None:
    pod, holder = placement
    create = ("create", "--dry-run=server", "--filename", "-")
    admin("apply", "--filename", "-", stdin=lease(holder, 7))
    ends = time.monotonic() + POLICY_WORKS_WITHIN_S
    while pod.refusal(*create, stdin=service("a", "7")) or not pod.refusal(*create, stdin=service("a", "6")):
        assert time.monotonic() < ends, pod.refusal(*create, stdin=service("a", "7"))

    assert "carries term 6, the lease says 7" in pod.refusal(*create, stdin=service("a", "6"))
    assert "carries term none, the lease says 7" in pod.refusal(*create, stdin=service("a", None))
    assert "not kvberth's to write" in pod.refusal(*create, stdin=service("a", "7", ours=False))
    admin("create", "--filename", "-", stdin=service("foreign", None, ours=False))
    assert "not kvberth's to write" in pod.refusal("delete", "service", "foreign", "-n", "default")

    pod("create", "--filename", "-", stdin=service("own", "7"))
    admin("apply", "--filename", "-", stdin=lease("another-pod_uid", 8))
    assert "the lease is held by another-pod_uid" in pod.refusal("delete", "service", "own", "-n", "default")
    assert "the lease is held by another-pod_uid" in pod.refusal(*create, stdin=service("a", "8"))
    admin("apply", "--filename", "-", stdin=lease(holder, 9))
    pod("delete", "service", "own", "-n", "default")
    admin("delete", "service", "foreign", "-n", "default")


def test_without_a_lease_everybody_else_can_work(admin: Kubectl) -> None:
    admin("delete", "lease", "kvberth-placement", "-n", "kvberth", "--ignore-not-found")
    create = ("create", "--dry-run=server", "--filename", "-")
    for _ in range(20):  # the policy may see the Lease's end a moment later
        assert admin.refusal(*create, stdin=service("a", None, ours=False)) == ""
        assert admin.refusal(*create, stdin=service("a", None)) == ""


def test_placement_may_ask_for_an_eviction_and_never_evict(admin: Kubectl, placement: tuple[Kubectl, str]) -> None:
    pod, holder = placement
    admin("apply", "--filename", "-", stdin=lease(holder, 9))
    spec = {"containers": [{"name": "c", "image": "none"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    admin("create", "--filename", "-", stdin=json.dumps(body))

    def evict(options: dict) -> str:
        metadata = {"name": "p", "namespace": "default"}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
        path = "/api/v1/namespaces/default/pods/p/eviction"
        return pod.refusal("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))

    ends = time.monotonic() + POLICY_WORKS_WITHIN_S
    while "never evict it" not in evict({}):
        assert time.monotonic() < ends
    assert evict({"dryRun": ["All"]}) == ""
    admin("get", "pod", "p", "-n", "default")
    admin("delete", "pod", "p", "-n", "default", "--now")


def test_a_node_that_is_added_gets_its_agent_at_once_whatever_its_taints(admin: Kubectl) -> None:
    taints = [{"key": "team", "value": "llm", "effect": "NoSchedule"}, {"key": "broken", "effect": "NoExecute"}]
    node = {"metadata": {"name": "added"}, "spec": {"unschedulable": True, "taints": taints}}
    admin("create", "--filename", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", **node}))
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
    admin("patch", "node", "added", "--subresource=status", "--type=merge", "--patch", json.dumps(status))
    bound = ("get", "pods", "-n", "kvberth", "--field-selector=spec.nodeName=added", "-o", "name")
    ends = time.monotonic() + AGENT_WITHIN_S
    while not (found := admin(*bound).split()):
        assert time.monotonic() < ends, admin("get", "pods", "-n", "kvberth", "-o", "wide")
    (agent,) = found
    assert agent.startswith("pod/kvberth-node-")
    admin("delete", "node", "added")
    admin("delete", agent, "-n", "kvberth", "--force")


def test_an_uninstall_as_the_documents_have_it_leaves_nothing_but_what_they_say(
    admin: Kubectl, install: Install
) -> None:
    admin("apply", "-k", str(OVERLAY.parents[1] / "preflight"))
    kvcache = {"apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "KVCache", "spec": {}}
    kvcache["metadata"] = {"name": "kv", "namespace": "default"}
    made = json.loads(admin("create", "-o", "json", "--filename", "-", stdin=json.dumps(kvcache)))
    child = daemon_set(sets_of(normalise(kvcache), Owner("default", "kv", made["metadata"]["uid"]))[0])
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", **child.body}
    body["metadata"] |= {"name": child.target.name, "namespace": child.target.namespace}
    admin("create", "--filename", "-", stdin=json.dumps(body))
    keep, purge = uninstall_commands()
    follow(admin, keep)
    stays = {
        "APIService <none> v1alpha1.orchestration.aibrix.ai",
        "CustomResourceDefinition <none> kvcaches.orchestration.aibrix.ai",
        "KVCache default kv",
        f"DaemonSet default {child.target.name}",
    }
    until_differs(admin, install, stays)
    admin("apply", "-k", str(OVERLAY))
    follow(admin, purge)
    until_differs(admin, install, set())


def follow(admin: Kubectl, commands: list[list[str]]) -> None:
    for command in commands:
        ends = time.monotonic() + GONE_WITHIN_S
        while admin(*command) and command[0] == "get":  # "until none is left"
            assert time.monotonic() < ends, admin(*command)
            time.sleep(0.2)


def until_differs(admin: Kubectl, install: Install, by: set[str]) -> None:
    """Wait until these objects and no others are there that were not before, or the other way round."""
    ends = time.monotonic() + GONE_WITHIN_S
    while (found := {one for one in everything(admin) ^ install.before if "ControllerRevision" not in one}) != by:
        assert time.monotonic() < ends, found ^ by
        time.sleep(0.5)


def uninstall_commands() -> list[list[list[str]]]:
    """What docs/deploy.md has people type, without the word kubectl: to keep KVCaches, and to purge them."""
    root = OVERLAY.parents[2]
    text = (root / "docs" / "deploy.md").read_text().partition("### Uninstall")[2].partition("\n### ")[0]
    blocks = [rest.partition("```")[0].splitlines() for rest in text.split("```sh\n")[1:]]
    assert len(blocks) == 2
    return [[words(line, root) for line in block] for block in blocks]


def words(line: str, root: Path) -> list[str]:
    command = shlex.split(line, comments=True)[1:]
    return [str(root / word) if word.startswith("k8s/") else word for word in command]
