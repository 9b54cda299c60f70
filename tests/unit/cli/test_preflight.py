"""Tests of what the preflight decides from what a cluster answered."""

from dataclasses import replace
from typing import Any

import pytest
import yaml
from rich.console import Console

from kvberth.cli.preflight.checks import cluster, install
from kvberth.cli.preflight.command import document, show
from kvberth.cli.preflight.facts import (
    Definition,
    Facts,
    Labelled,
    Node,
    Present,
    Right,
    ServerVersion,
    Unasked,
    Workload,
)
from kvberth.cli.preflight.findings import Finding, Level, exit_status, few
from kvberth.cli.preflight.judge import judge
from kvberth.cli.preflight.parts import DEFINITION, GATE_PARTS, HA_PARTS, PARTS
from kvberth.kube.objects import Meta
from kvberth.kube.resources import DEPLOYMENTS, SERVICES, STATEFUL_SETS
from kvberth_schemas import crd

OURS = {"app.kubernetes.io/part-of": "kvberth"}
ADMISSION = frozenset(
    f"{which}admissionpolic{rest}" for which in ("validating", "mutating") for rest in ("ies", "ybindings")
)
GONE_SOON = "2026-11-30T00:00:00Z"
ENFORCE = "pod-security.kubernetes.io/enforce"


def labelled(name: str, namespace: str = "", **labels: str) -> Labelled:
    return Labelled.model_validate({"metadata": {"name": name, "namespace": namespace, "labels": labels}})


def node(name: str = "a", *, ready: str = "True", system: str = "linux") -> Node:
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"operatingSystem": system}}
    return Node.model_validate({"metadata": {"name": name}, "status": status})


def deployment(name: str, image: str = "example/thing:1", *, replicas: int = 1, args: tuple[str, ...] = ()) -> Workload:
    pod = {"containers": [{"name": "c", "image": image, "args": list(args)}]}
    spec = {"replicas": replicas, "template": {"spec": pod}}
    return Workload.model_validate({"metadata": {"name": name, "namespace": "aibrix-system"}, "spec": spec})


def definition(
    *, labels: dict[str, str] = OURS, served: tuple[str, ...] = ("v1alpha1",), stored: tuple[str, ...] = ("v1alpha1",)
) -> Definition:
    value = {
        "metadata": {"name": DEFINITION, "labels": labels},
        "spec": {"versions": [{"name": name, "served": True} for name in served]},
        "status": {"storedVersions": list(stored)},
    }
    return Definition.model_validate(value)


def present(name: str, image: str = "", *, labels: dict[str, str] = OURS, **meta: Any) -> Present:
    told = Meta.model_validate({"name": name, "namespace": "kvberth", "labels": labels, **meta})
    return Present(DEPLOYMENTS if image else SERVICES, told, (image,) if image else ())


EMPTY = Facts(
    version=ServerVersion(major="1", minor="36", git_version="v1.36.3"),
    admission=ADMISSION,
    definition=None,
    deployments=(),
    namespaces=(labelled("default"),),
    kvcaches=(),
    nodes=(node(),),
    present=(),
    missing=(),
)


def levels(facts: Facts) -> dict[str, Level]:
    return {finding.check: finding.level for finding in judge(facts, "0.1.0")}


def test_an_empty_cluster_of_today_takes_the_install() -> None:
    findings = judge(EMPTY, "0.1.0")
    assert {finding.level for finding in findings} == {Level.OK}
    assert exit_status(findings) == 0


@pytest.mark.parametrize(
    ("major", "minor", "level"),
    [
        ("1", "36", Level.OK),
        ("1", "41+", Level.OK),
        ("2", "0", Level.OK),
        ("1", "35", Level.WARNING),
        ("1", "30+", Level.WARNING),
        ("1", "29", Level.REFUSED),
        ("", "", Level.WARNING),
    ],
)
def test_an_api_server_is_supported_by_its_version(major: str, minor: str, level: Level) -> None:
    assert cluster.api_server(ServerVersion(major=major, minor=minor, git_version=f"v{major}.{minor}")).level is level


def test_without_the_fence_nothing_is_installed_and_without_the_gate_one_is_warned() -> None:
    fence_only = frozenset(name for name in ADMISSION if name.startswith("validating"))
    assert (cluster.fence(fence_only).level, cluster.gate(fence_only).level) == (Level.OK, Level.WARNING)
    assert cluster.fence(ADMISSION - {"validatingadmissionpolicybindings"}).level is Level.REFUSED
    assert cluster.gate(ADMISSION - {"mutatingadmissionpolicybindings"}).level is Level.WARNING


def test_a_definition_of_somebody_else_is_refused_with_the_way_to_hand_it_over() -> None:
    finding = install.definition(definition(labels={}))
    assert finding.level is Level.REFUSED
    assert f"kubectl label crd {DEFINITION} app.kubernetes.io/part-of=kvberth" in finding.remedy


def test_a_definition_of_ours_must_hold_our_version_alone() -> None:
    assert install.definition(None).level is Level.OK
    assert install.definition(definition()).level is Level.OK
    assert install.definition(definition(served=("v1alpha1", "v1beta1"))).level is Level.WARNING
    later = install.definition(definition(served=("v1alpha1",), stored=("v1alpha1", "v1beta1")))
    assert later.level is Level.REFUSED
    assert "v1beta1" in later.sentence


def test_a_definition_that_goes_away_is_waited_for() -> None:
    going = {"metadata": {"name": DEFINITION, "labels": OURS, "deletionTimestamp": GONE_SOON}}
    assert install.definition(Definition.model_validate(going)).level is Level.REFUSED


@pytest.mark.parametrize(
    ("found", "level"),
    [
        (deployment("aibrix-controller-manager"), Level.REFUSED),
        (deployment("aibrix-kv-cache-controller-manager"), Level.REFUSED),
        (deployment("mine", "registry.example:5000/aibrix/controller-manager:v0.4.0"), Level.REFUSED),
        (deployment("mine", "aibrix/controller-manager@sha256:0f"), Level.REFUSED),
        (deployment("aibrix-controller-manager", args=("--controllers=kv-cache-controller",)), Level.REFUSED),
        (deployment("aibrix-controller-manager", args=("--controllers", "*")), Level.REFUSED),
        (deployment("aibrix-controller-manager", args=("--controllers=*,-kv-cache-controller",)), Level.WARNING),
        (deployment("aibrix-controller-manager", args=("-controllers", "pod-autoscaler-controller")), Level.WARNING),
        (deployment("aibrix-controller-manager", replicas=0), Level.WARNING),
        (deployment("aibrix-gateway-plugins", "aibrix/gateway-plugins:v0.4.0"), Level.OK),
        (deployment("controller-manager", "example/controller-manager:1"), Level.OK),
    ],
)
def test_a_controller_of_aibrix_is_refused_while_it_handles_kvcaches(found: Workload, level: Level) -> None:
    finding = cluster.aibrix([deployment("other"), found])
    assert finding.level is level
    assert (f"aibrix-system/{found.metadata.name}" in finding.sentence) is (level is not Level.OK)


def test_our_namespace_may_be_absent_or_ours() -> None:
    assert install.namespace([labelled("default")]).level is Level.OK
    mine = labelled("kvberth", **OURS, **{ENFORCE: "privileged"})
    assert install.namespace([mine]).level is Level.OK
    assert install.namespace([labelled("kvberth", **OURS, **{ENFORCE: "restricted"})]).level is Level.WARNING
    assert install.namespace([labelled("kvberth")]).level is Level.WARNING
    going = {"metadata": {"name": "kvberth", "labels": OURS, "deletionTimestamp": GONE_SOON}}
    assert install.namespace([Labelled.model_validate(going)]).level is Level.REFUSED


def test_an_object_of_somebody_else_under_a_name_of_ours_is_refused_by_its_name() -> None:
    finding = install.names([present("nats", labels={}), present("placement")], ha=False)
    assert finding.level is Level.REFUSED
    assert "Service kvberth/nats" in finding.sentence
    assert "placement" not in finding.sentence
    assert install.names([present("nats")], ha=False).level is Level.OK
    assert install.names([present("nats", deletionTimestamp=GONE_SOON)], ha=False).level is Level.REFUSED


def test_a_name_that_only_ha_uses_stands_against_nothing_but_ha() -> None:
    others = [present("nats-peers", labels={})]
    assert install.names(others, ha=False).level is Level.OK
    assert install.names(others, ha=True).level is Level.REFUSED


def test_the_bus_of_the_other_overlay_is_refused_with_what_to_do_about_it() -> None:
    one = present("nats", "docker.io/library/nats:2.15.1")
    three = replace(one, resource=STATEFUL_SETS)
    assert install.bus([one], ha=False).level is Level.OK
    assert install.bus([three], ha=True).level is Level.OK
    assert install.bus([one], ha=True).level is Level.REFUSED
    assert install.bus([one], ha=True).remedy.startswith("kubectl -n kvberth delete deployment nats")
    assert install.bus([three], ha=False).remedy.startswith("kubectl -n kvberth delete statefulset nats")


@pytest.mark.parametrize(
    ("image", "level"),
    [
        ("localhost/kvberth:0.1.0", Level.OK),
        ("registry.example:5000/kvberth:0.1.0@sha256:0f", Level.OK),
        ("localhost/kvberth:0.0.9", Level.WARNING),
        ("registry.example:5000/kvberth@sha256:0f", Level.WARNING),
    ],
)
def test_another_version_that_is_installed_is_told(image: str, level: Level) -> None:
    found = [present("placement", image), present("nats", "docker.io/library/nats:2.15.1")]
    finding = install.installed(found, "0.1.0")
    assert finding.level is level
    assert "2.15.1" not in finding.sentence


def test_an_object_of_somebody_else_is_no_installed_version() -> None:
    found = [present("placement", "example/other:7", labels={})]
    assert "not installed" in install.installed(found, "0.1.0").sentence


def test_a_missing_right_is_named() -> None:
    finding = install.rights([Right("create", DEPLOYMENTS), Right("bind", SERVICES)])
    assert finding.level is Level.REFUSED
    assert "create deployments" in finding.sentence
    assert install.rights([Right("escalate", DEPLOYMENTS)]).level is Level.WARNING
    assert install.rights([]).level is Level.OK


def test_namespaces_that_refuse_caches_are_named_those_with_kvcaches_first() -> None:
    strict = [labelled(f"ns-{at}", **{ENFORCE: "baseline"}) for at in range(7)]
    free = [labelled("free", **{ENFORCE: "privileged"}), labelled("kvberth", **{ENFORCE: "restricted"})]
    finding = cluster.pod_security([*strict, *free], (labelled("k", "ns-6"), labelled("l", "ns-6")))
    assert finding.level is Level.WARNING
    assert "in ns-6 (baseline, holds 2 KVCaches), ns-0 (baseline)" in finding.sentence
    assert "and 2 more" in finding.sentence
    assert cluster.pod_security(free, ()).level is Level.OK


def test_nodes_must_be_ready_and_run_linux() -> None:
    assert "1 of 2 nodes are ready" in cluster.nodes([node(), node("b", ready="Unknown")]).sentence
    assert cluster.nodes([]).level is Level.WARNING
    assert cluster.nodes([node(ready="False")]).level is Level.WARNING
    windows = cluster.nodes([node(), node("w", system="windows")])
    assert windows.level is Level.WARNING
    assert "w can't run" in windows.sentence


@pytest.mark.parametrize(
    ("fact", "checks"),
    [
        ("admission", {"fence", "gate"}),
        ("definition", {"definition"}),
        ("deployments", {"aibrix"}),
        ("namespaces", {"namespace", "pod-security"}),
        ("kvcaches", {"pod-security"}),
        ("nodes", {"nodes"}),
        ("present", {"names", "bus", "installed"}),
        ("missing", {"rights"}),
    ],
)
def test_a_question_without_an_answer_is_unknown_and_never_ok(fact: str, checks: set[str]) -> None:
    facts = replace(EMPTY, **{fact: Unasked("list of Thing was refused with 403")})
    findings = judge(facts, "0.1.0")
    unknown = {finding.check for finding in findings if finding.level is Level.UNKNOWN}
    assert unknown == checks
    assert all("403" in finding.sentence for finding in findings if finding.check in checks)
    assert exit_status(findings) == 2


def test_a_refusal_weighs_more_than_a_question_without_an_answer() -> None:
    facts = replace(EMPTY, nodes=Unasked("no"), definition=definition(labels={}))
    assert exit_status(judge(facts, "0.1.0")) == 1


def test_every_finding_that_is_not_ok_says_what_to_do() -> None:
    facts = replace(
        EMPTY,
        version=ServerVersion(major="1", minor="20", git_version="v1.20.0"),
        admission=frozenset[str](),
        definition=definition(labels={}),
        deployments=(deployment("aibrix-controller-manager"),),
        namespaces=(labelled("kvberth"), labelled("n", **{ENFORCE: "restricted"})),
        nodes=(),
        present=(
            present("nats", labels={}),
            present("placement", "localhost/kvberth:0.0.9"),
            replace(present("nats"), resource=STATEFUL_SETS),
        ),
        missing=(Right("create", DEPLOYMENTS),),
    )
    findings = judge(facts, "0.1.0")
    assert Level.OK not in {finding.level for finding in findings}
    assert all(finding.remedy for finding in findings)


def test_each_check_is_a_line_with_its_remedy_below_and_a_verdict_at_the_end() -> None:
    findings = [
        Finding("a", Level.OK, "fine"),
        Finding("b", Level.WARNING, "so so [x]", "look"),
        Finding("c", Level.REFUSED, "bad", "mend it"),
    ]
    console = Console(width=200, record=True, file=None, quiet=False, highlight=False)
    with console.capture() as captured:
        show(findings, console)
    lines = captured.get().splitlines()
    assert lines[:5] == [
        "OK       a: fine",
        "WARNING  b: so so [x]",
        "         -> look",
        "REFUSED  c: bad",
        "         -> mend it",
    ]
    assert lines[-1].endswith("must not be installed here: 1 check refused")


def test_the_json_holds_the_verdict_and_every_check() -> None:
    told = document([Finding("a", Level.OK, "fine"), Finding("b", Level.UNKNOWN, "who knows", "ask")])
    assert told["verdict"] == "unknown"
    assert told["findings"] == [
        {"check": "a", "level": "OK", "sentence": "fine", "remedy": ""},
        {"check": "b", "level": "UNKNOWN", "sentence": "who knows", "remedy": "ask"},
    ]


def test_a_long_list_is_cut_and_counted() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few(["a", "b", "c"], most=2) == "a, b and 1 more"


def held_in(*folders: str) -> dict[str, set[str]]:
    """The names that the manifests of these folders hold, by kind."""
    held: dict[str, set[str]] = {}
    files = (file for folder in folders for file in (crd.FILE.parents[1] / folder).glob("*.yaml"))
    for file in files:
        for value in yaml.safe_load_all(file.read_text()):
            # a list is a patch, and no object
            if isinstance(value, dict) and value["kind"] not in {"Kustomization", "Component"}:
                held.setdefault(value["kind"], set()).add(value["metadata"]["name"])
    return held


def test_the_table_of_parts_names_what_the_manifests_hold() -> None:
    assert held_in("base", "crd") == {part.resource.kind: set(part.names) for part in PARTS if part.names}


def test_the_table_of_parts_names_what_the_gate_holds() -> None:
    assert held_in("gate") == {part.resource.kind: set(part.names) for part in GATE_PARTS}


def test_the_table_of_parts_names_what_ha_adds() -> None:
    assert held_in("overlays/ha") == {part.resource.kind: set(part.names) for part in HA_PARTS}


def test_the_rights_of_the_preflight_reach_every_name_of_the_install() -> None:
    role = yaml.safe_load((crd.FILE.parents[1] / "preflight" / "role.yaml").read_text())
    granted = {
        (group, resource, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
        if "get" in rule["verbs"]
    }
    wanted = {
        (part.resource.group, part.resource.plural, name)
        for part in (*PARTS, *GATE_PARTS, *HA_PARTS)
        for name in part.names
    }
    assert wanted <= granted
    assert all(set(rule["verbs"]) <= {"get", "list"} for rule in role["rules"])
