"""What stands several times must stand apart, on clusters whose nodes say their zone and on those whose don't.

The scheduler leaves a pod's whole wish for a spread out of account on a node that lacks one of the labels which it
spreads over. So the zone, which few small clusters name, is wished for in another way.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

K8S = Path(__file__).parents[3] / "k8s"
FILES = ("base/placement.yaml", "base/pod-watcher.yaml", "overlays/ha/nats.yaml")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def pod_of(file: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((K8S / file).read_text())
    workload = next(one for one in documents if one["kind"] in {"Deployment", "StatefulSet"})
    template: dict[str, Any] = workload["spec"]["template"]
    assert workload["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    return template


@pytest.mark.parametrize("file", FILES)
def test_replicas_are_spread_over_hosts_by_the_one_label_that_each_node_has(file: str) -> None:
    template = pod_of(file)
    (spread,) = template["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["maxSkew"]) == (HOST, 1)
    assert spread["labelSelector"]["matchLabels"] == template["metadata"]["labels"]


@pytest.mark.parametrize("file", FILES)
def test_replicas_are_in_different_zones_where_there_are_zones_and_never_wait_for_one(file: str) -> None:
    template = pod_of(file)
    affinity = template["spec"]["affinity"]["podAntiAffinity"]
    (wish,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert list(affinity) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    assert wish["podAffinityTerm"]["topologyKey"] == ZONE
    assert wish["podAffinityTerm"]["labelSelector"]["matchLabels"] == template["metadata"]["labels"]


def test_no_host_has_two_of_three_servers_of_the_bus() -> None:
    (spread,) = pod_of("overlays/ha/nats.yaml")["spec"]["topologySpreadConstraints"]
    assert (spread["whenUnsatisfiable"], spread["minDomains"]) == ("DoNotSchedule", 3)  # else two hosts take 2 and 1
    assert "nodeTaintsPolicy" not in spread  # its default counts a lost or cordoned node, too
