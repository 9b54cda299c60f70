"""Who may reach whom in our namespace, by the install's NetworkPolicies: read from the files, with their selectors.

No cluster that kvberth was tried on enforces such policies, so that a slip in a label or a port would be felt by the
first who has one that does.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

K8S = Path(__file__).parents[3] / "k8s"
Json = dict[str, Any]
OBJECTS: list[Json] = [
    document
    for folder in ("base", "overlays/ha")
    for path in sorted((K8S / folder).glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if "kind" in document
]
POLICIES = [one for one in OBJECTS if one["kind"] == "NetworkPolicy"]
SERVICES = [one for one in OBJECTS if one["kind"] == "Service"]
ASKING = ("kvberth-node", "placement", "pod-watcher")


def pods() -> Iterator[tuple[str, Json, dict[str, int]]]:
    """Name, labels and ports of each kind of pod; NATS' are those of three servers, which have one port more."""
    for one in OBJECTS:
        if one["kind"] in {"Deployment", "DaemonSet", "StatefulSet"} and (one["kind"], one["metadata"]["name"]) != (
            "Deployment",
            "nats",
        ):
            template = one["spec"]["template"]
            ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
            yield one["metadata"]["name"], template["metadata"]["labels"], ports


PODS = list(pods())


def finds(selector: Json, labels: Json) -> bool:
    """Whether a label selector finds these labels; an empty one finds all."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    by_expressions = True
    for one in selector.get("matchExpressions", ()):
        assert one["operator"] == "In"
        by_expressions = by_expressions and labels.get(one["key"]) in one["values"]
    return by_expressions and selector.get("matchLabels", {}).items() <= labels.items()


def rules(labels: Json, direction: str) -> list[Json] | None:
    """The rules that hold for a pod in one direction; None where no policy limits it."""
    chosen = [one["spec"] for one in POLICIES if finds(one["spec"]["podSelector"], labels)]
    limiting = [one for one in chosen if direction.capitalize() in one["policyTypes"]]
    return [rule for one in limiting for rule in one.get(direction, ())] if limiting else None


def lets(rule: Json, peers: str, other: Json, port: tuple[str, int]) -> bool:
    """Whether a rule lets a pod of our namespace come, or go, to a port."""
    named = any(each["port"] in port for each in rule["ports"])
    at = rule.get(peers)
    return named and (at is None or any("podSelector" in one and finds(one["podSelector"], other) for one in at))


def reaches() -> set[tuple[str, str, str]]:
    """From, to and port of all that is let through between our pods."""
    return {
        (source, target, name)
        for (source, theirs, _), (target, ours, ports) in product(PODS, PODS)
        for name, number in ports.items()
        if any(lets(rule, "to", ours, (name, number)) for rule in rules(theirs, "egress") or ())
        and any(lets(rule, "from", theirs, (name, number)) for rule in rules(ours, "ingress") or ())
    }


def test_services_reach_nats_and_its_servers_each_other_and_nothing_else() -> None:
    assert reaches() == {*((one, "nats", "client") for one in ASKING), ("nats", "nats", "peers")}


def test_every_pod_is_limited_both_ways() -> None:
    for _, labels, _ in PODS:
        assert rules(labels, "ingress") is not None
        assert rules(labels, "egress") is not None


def test_names_are_asked_by_all_and_the_api_server_by_those_who_use_it() -> None:
    out = {
        (name, port["port"])
        for name, labels, _ in PODS
        for rule in rules(labels, "egress") or ()
        if "to" not in rule
        for port in rule["ports"]
    }
    names = {(one, 53) for one in (*ASKING, "nats")}
    assert out == names | {(one, port) for one in ("placement", "pod-watcher") for port in (443, 6443)}


def test_from_other_namespaces_only_scrapers_come_and_only_to_metrics() -> None:
    for name, labels, ports in PODS:
        for rule in rules(labels, "ingress") or ():
            others = [one for one in rule["from"] if "namespaceSelector" in one]
            if others:
                assert others == [{"namespaceSelector": {"matchLabels": {"kvberth.dev/scrapes-metrics": "true"}}}]
                assert [one["port"] for one in rule["ports"]] == ["http"]
                assert name in ASKING
                assert "http" in ports


@pytest.mark.parametrize("policy", POLICIES, ids=[one["metadata"]["name"] for one in POLICIES])
def test_every_port_that_a_policy_names_is_one_of_the_pods_that_it_means(policy: Json) -> None:
    spec = policy["spec"]
    meant = [(labels, ports) for _, labels, ports in PODS if finds(spec["podSelector"], labels)]
    assert meant
    for rule in spec.get("ingress", ()):
        assert all(port["port"] in ports for _, ports in meant for port in rule["ports"])
    for rule in spec.get("egress", ()):
        for peer in rule.get("to", ()):
            there = [ports for _, labels, ports in PODS if finds(peer["podSelector"], labels)]
            assert there
            assert all(port["port"] in ports for ports in there for port in rule["ports"])


@pytest.mark.parametrize("service", SERVICES, ids=[one["metadata"]["name"] for one in SERVICES])
def test_every_service_leads_to_a_port_that_its_pods_have(service: Json) -> None:
    found = [ports for _, labels, ports in PODS if service["spec"]["selector"].items() <= labels.items()]
    assert found
    for port in service["spec"]["ports"]:
        assert all(ports[port["targetPort"]] == port["port"] for ports in found)


def test_services_and_servers_are_told_the_ports_that_there_are() -> None:
    ports = next(ports for name, _, ports in PODS if name == "nats")
    settings = (K8S / "base" / "kustomization.yaml").read_text()
    assert f"KVBERTH_NATS_URL=nats://nats.kvberth.svc:{ports['client']}" in settings
    routes = (K8S / "overlays" / "ha" / "peers.conf").read_text()
    assert [f"nats-{number}.nats-peers:{ports['peers']}" in routes for number in range(3)] == [True] * 3
