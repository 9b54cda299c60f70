"""`kvberth preflight` on a real API server: what it refuses, what it may read, and that its remedies help."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kvberth_schemas import crd
from support.api_server import ControlPlane, control_plane, missing_assets

MANIFESTS = Path(__file__).parents[2] / "k8s"
DEFINITION = "kvcaches.orchestration.aibrix.ai"
AIBRIX = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "aibrix-controller-manager", "namespace": "aibrix-system"},
    "spec": {
        "selector": {"matchLabels": {"control-plane": "controller-manager"}},
        "template": {
            "metadata": {"labels": {"control-plane": "controller-manager"}},
            "spec": {"containers": [{"name": "manager", "image": "aibrix/controller-manager:v0.4.0"}]},
        },
    },
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: definitions and installs come and go here."""
    if why := missing_assets():
        pytest.skip(why)
    with control_plane(tmp_path_factory.mktemp("preflight")) as running:
        yield running


def ask(kubeconfig: Path, *options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit status, and each check's level and sentence with its remedy."""
    command = [sys.executable, "-m", "kvberth.cli", "preflight", "--kubeconfig", str(kubeconfig), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {one["check"]: (one["level"], f"{one['sentence']}; {one['remedy']}") for one in found}


def levels(found: dict[str, tuple[str, str]], *unlike: str) -> dict[str, str]:
    return {check: level for check, (level, _) in found.items() if level not in unlike}


def put(cluster: ControlPlane, path: Path, *values: object) -> None:
    path.write_text(yaml.safe_dump_all(values))
    cluster.kubectl("apply", "-f", str(path))


def account(cluster: ControlPlane, name: str, *roles: str) -> Path:
    """A kubeconfig of an account that holds these cluster roles."""
    cluster.kubectl("create", "serviceaccount", name)
    for role in roles:
        given = ("--clusterrole", role, "--serviceaccount", f"default:{name}")
        cluster.kubectl("create", "clusterrolebinding", f"{name}-{role}", *given)
    return cluster.kubeconfig(name, token=cluster.kubectl("create", "token", name).strip())


Right = tuple[str, str, str]
"""API group, resource, verb."""


def granted() -> set[Right]:
    """What the role of the preflight grants."""
    (role,) = yaml.safe_load_all((MANIFESTS / "preflight" / "role.yaml").read_text())
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(cluster: ControlPlane, name: str) -> set[Right]:
    """What an account asked for, by the audit log, but for what everybody may ask."""
    asked = [
        one["objectRef"] | {"verb": one["verb"]} for one in cluster.asked_by(f"default:{name}") if "objectRef" in one
    ]
    return {
        (one.get("apiGroup", ""), one["resource"], one["verb"])
        for one in asked
        if one.get("apiGroup") not in {"authorization.k8s.io", "authentication.k8s.io"}
    }


def test_an_empty_cluster_takes_the_install(cluster: ControlPlane) -> None:
    status, found = ask(cluster.kubeconfig())
    assert status == 0, found
    assert levels(found, "OK") == {"nodes": "WARNING"}  # this control plane has none
    assert "not installed" in found["installed"][1]


def test_an_account_with_the_rights_of_the_preflight_alone_gets_every_answer(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-k", str(MANIFESTS / "preflight"))
    status, found = ask(account(cluster, "reader", "kvberth-preflight"))
    assert status == 1
    assert levels(found, "OK") == {"nodes": "WARNING", "rights": "REFUSED"}
    assert "may not" in found["rights"][1]


def test_an_account_that_may_not_look_is_told_so_and_nothing_counts_as_good(cluster: ControlPlane) -> None:
    status, found = ask(account(cluster, "nobody"))
    assert status == 1  # it may not install either
    unknown = {"definition", "aibrix", "namespace", "names", "bus", "installed", "pod-security", "nodes"}
    assert levels(found, "OK") == {"rights": "REFUSED", **dict.fromkeys(unknown, "UNKNOWN")}
    assert "deployments.apps is forbidden" in found["aibrix"][1]


def test_credentials_that_are_not_accepted_and_a_server_that_is_not_there_exit_with_2(cluster: ControlPlane) -> None:
    status, found = ask(cluster.kubeconfig("stranger", token="not-a-token"))
    assert (status, levels(found)) == (2, {"api-server": "UNKNOWN"})
    assert "401" in found["api-server"][1]
    status, found = ask(cluster.kubeconfig("nowhere", server="https://127.0.0.1:1"))
    assert (status, levels(found)) == (2, {"api-server": "UNKNOWN"})


def test_aibrix_is_refused_until_its_controller_stops_and_its_definition_is_handed_over(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    theirs = yaml.safe_load(crd.FILE.read_text())
    del theirs["metadata"]["labels"]
    cluster.kubectl("create", "namespace", "aibrix-system")
    put(cluster, tmp_path / "aibrix.yaml", theirs, AIBRIX)

    status, found = ask(cluster.kubeconfig())
    assert status == 1
    assert levels(found, "OK", "WARNING") == {"definition": "REFUSED", "aibrix": "REFUSED"}
    assert "Deployment aibrix-system/aibrix-controller-manager" in found["aibrix"][1]

    cluster.kubectl("scale", "deployment", "-n", "aibrix-system", "aibrix-controller-manager", "--replicas=0")
    remedy = found["definition"][1].partition("kubectl ")[2]
    cluster.kubectl(*remedy.split())
    status, found = ask(cluster.kubeconfig())
    assert status == 0
    assert levels(found, "OK") == {"nodes": "WARNING", "aibrix": "WARNING"}

    cluster.kubectl("delete", "namespace", "aibrix-system")
    cluster.kubectl("delete", "crd", DEFINITION)


def test_what_is_not_ours_under_our_names_is_refused_by_name(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.kubectl("create", "namespace", "kvberth")
    cluster.kubectl("create", "service", "clusterip", "nats", "-n", "kvberth", "--tcp=4222")
    cluster.kubectl("create", "clusterrole", "kvberth-placement", "--verb=get", "--resource=pods")
    status, found = ask(cluster.kubeconfig())
    assert status == 1
    assert levels(found, "OK") == {"nodes": "WARNING", "namespace": "WARNING", "names": "REFUSED"}
    assert "ClusterRole kvberth-placement, Service kvberth/nats" in found["names"][1]
    cluster.kubectl("delete", "clusterrole", "kvberth-placement")
    cluster.kubectl("delete", "namespace", "kvberth")


def test_an_install_is_known_again_and_namespaces_that_refuse_its_caches_are_named(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    cluster.kubectl("apply", "-k", str(MANIFESTS / "overlays" / "default"))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{DEFINITION}")
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": restricted}}
    cache = {
        "apiVersion": "orchestration.aibrix.ai/v1alpha1",
        "kind": "KVCache",
        "metadata": {"name": "cache", "namespace": "team"},
        "spec": {"mode": "distributed"},
    }
    put(cluster, tmp_path / "team.yaml", team, cache)
    status, found = ask(cluster.kubeconfig())
    assert status == 0
    assert levels(found, "OK") == {"nodes": "WARNING", "pod-security": "WARNING"}
    assert "team (restricted, holds 1 KVCache)" in found["pod-security"][1]
    assert "is installed already" in found["installed"][1]

    image = "placement=localhost/kvberth:0.0.9"
    cluster.kubectl("set", "image", "-n", "kvberth", "deployment/placement", image)
    status, found = ask(cluster.kubeconfig())
    assert (status, found["installed"][0]) == (0, "WARNING")
    assert "0.0.9" in found["installed"][1]


def test_the_preflight_uses_every_right_of_its_role(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "-k", str(MANIFESTS / "overlays" / "default"))  # KVCaches are looked for where they can be
    cluster.kubectl("wait", "--for=condition=Established", f"crd/{DEFINITION}")
    cluster.kubectl("apply", "-k", str(MANIFESTS / "preflight"))
    looks = account(cluster, "looks", "kvberth-preflight")
    ask(looks)
    ask(looks, "--ha")
    assert used(cluster, "looks") == granted()


def test_the_overlays_of_the_documents_rename_the_image_and_leave_the_gate_out(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    text = (MANIFESTS.parent / "docs" / "deploy.md").read_text()
    overlays = [part.partition("```")[0] for part in text.split("```yaml\n")[1:] if "kind: Kustomization" in part]
    repository = os.path.relpath(MANIFESTS.parent, tmp_path / "0")
    rendered = []
    for at, overlay in enumerate(overlays):
        (tmp_path / str(at)).mkdir()
        (tmp_path / str(at) / "kustomization.yaml").write_text(overlay.replace("path/to/kvberth", repository))
        rendered.append(cluster.kubectl("kustomize", str(tmp_path / str(at))))
    renamed, ungated = rendered
    assert "image: registry.example/kvberth:0.1.0" in renamed
    assert "localhost/kvberth" not in renamed
    kinds = [value["kind"] for value in yaml.safe_load_all(ungated)]
    assert "DaemonSet" in kinds
    assert not [kind for kind in kinds if kind.startswith("Mutating")]
