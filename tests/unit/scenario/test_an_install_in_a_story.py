"""How an install is changed for one story: only what is meant, and with all of it put back."""

from copy import deepcopy
from typing import Any

import pytest

from kvberth.kube import KubeError, Resource
from kvberth.kube.resources import DAEMON_SETS, DEPLOYMENTS, PODS
from kvberth.scenario.backend.kubernetes import install
from kvberth.scenario.backend.kubernetes.install import AGENT, Install
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.manifests import merged

SERVICES = ((DEPLOYMENTS, "placement"), (DEPLOYMENTS, "pod-watcher"), (DAEMON_SETS, AGENT))


def workload(resource: Resource, name: str) -> dict[str, Any]:
    """Make a service of the install, whose status says what its controller made of the last change."""
    env = [{"name": "KVBERTH_BACKEND", "value": "kubernetes"}]
    spec: dict[str, Any] = {"template": {"spec": {"containers": [{"name": name, "image": "kvberth", "env": env}]}}}
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    if resource is DAEMON_SETS:
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}}
        status = {
            "observedGeneration": 1,
            "desiredNumberScheduled": 3,
            "updatedNumberScheduled": 3,
            "numberAvailable": 3,
        }
    else:
        spec["replicas"] = 2
    return {"kind": resource.kind, "metadata": {"name": name, "generation": 1}, "spec": spec, "status": status}


def pod(service: str, node: str) -> dict[str, Any]:
    """Make a pod of the install."""
    meta = {"name": f"{service}-{node}", "namespace": "kvberth", "labels": {"app.kubernetes.io/name": service}}
    return {"metadata": meta, "spec": {"nodeName": node}}


class Installed:
    """An API server with an install whose controllers are at once done with every change."""

    def __init__(self) -> None:
        self.objects = {name: workload(resource, name) for resource, name in SERVICES}
        self.before = deepcopy(self.specs)
        self.deleted: list[str] = []
        self.refuses = False
        self.pods: list[dict[str, Any]] = []

    @property
    def specs(self) -> dict[str, Any]:
        return {name: one["spec"] for name, one in self.objects.items()}

    def env(self, name: str) -> list[dict[str, str]]:
        return self.specs[name]["template"]["spec"]["containers"][0]["env"]

    async def get(self, _: Resource, __: str, name: str) -> dict[str, Any]:
        return deepcopy(self.objects[name])

    async def list(self, resource: Resource, _: str, labels: str = "") -> list[dict[str, Any]]:
        assert resource is PODS
        return [pod(AGENT, "a")] if labels else self.pods

    async def delete(self, resource: Resource, _: str, name: str) -> None:
        assert resource is PODS
        self.deleted.append(name)
        self.pods = [one for one in self.pods if one["metadata"]["name"] != name]

    async def merge(self, _: Resource, __: str, name: str, body: dict[str, Any]) -> None:
        if self.refuses:
            raise KubeError("the API server is away")
        self.objects[name] = merged(self.objects[name], body)


async def test_settings_are_given_to_every_service_and_taken_back() -> None:
    api = Installed()
    changed = Install(api)  # type: ignore[arg-type]
    await changed.give({"KVBERTH_EMPTY_AFTER_S": "3", "KVBERTH_BACKEND": "other"})
    for _, name in SERVICES:
        expected = [{"name": "KVBERTH_EMPTY_AFTER_S", "value": "3"}, {"name": "KVBERTH_BACKEND", "value": "other"}]
        assert api.env(name) == expected
    assert api.deleted == [f"{AGENT}-a"]
    assert await changed.take_back() == []
    assert api.specs == api.before


async def test_who_asks_the_api_server_is_led_through_a_witness_and_back() -> None:
    api = Installed()
    changed = Install(api)  # type: ignore[arg-type]
    await changed.give({}, "10.0.0.7")
    for name in ("placement", "pod-watcher"):
        spec = api.specs[name]["template"]["spec"]
        assert spec["hostAliases"] == [{"ip": "10.0.0.7", "hostnames": ["kubernetes.default.svc"]}]
        assert {"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default.svc"} in api.env(name)
        assert {"name": "KUBERNETES_SERVICE_PORT", "value": "4224"} in api.env(name)
    assert api.specs[AGENT] == api.before[AGENT]  # agents ask it nothing
    assert await changed.take_back() == []
    assert api.specs == api.before


async def test_nothing_is_changed_for_a_story_that_sets_nothing() -> None:
    api = Installed()
    changed = Install(api)  # type: ignore[arg-type]
    api.refuses = True
    await changed.give({})
    assert await changed.take_back() == []


async def test_who_decides_leaves_a_node_that_will_be_lost_and_nobody_else_does() -> None:
    api = Installed()
    api.pods = [pod(name, "a") for name in ("nats", "placement", AGENT, "other")] + [pod("placement", "b")]
    await Install(api).leave({"a"})  # type: ignore[arg-type]
    assert sorted(api.deleted) == ["nats-a", "placement-a"]


async def test_an_agent_is_kept_from_its_node_alone_and_comes_back() -> None:
    api = Installed()
    changed = Install(api)  # type: ignore[arg-type]
    await changed.keep_agent_from("b")
    await changed.keep_agent_from("a")
    spec = api.specs[AGENT]
    assert spec["updateStrategy"] == {"type": "OnDelete"}  # else all others would be started anew
    node = spec["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [rule["values"] for rule in node["nodeSelectorTerms"][0]["matchFields"]] == [["a"], ["b"]]
    with pytest.raises(ScenarioError, match="not stopped"):
        await changed.let_agent_back("c")
    await changed.let_agent_back("b")
    await changed.let_agent_back("a")
    assert api.specs == api.before


async def test_what_a_story_left_away_comes_back_at_its_end_and_what_fails_is_said() -> None:
    api = Installed()
    changed = Install(api)  # type: ignore[arg-type]
    await changed.give({"X": "1"})
    await changed.keep_agent_from("b")
    api.refuses = True
    assert await changed.take_back() == ["the API server is away"]
    api.refuses = False
    assert await changed.take_back() == []
    assert api.specs == api.before


@pytest.mark.parametrize("resource", [DEPLOYMENTS, DAEMON_SETS])
def test_a_service_runs_as_told_when_its_controller_has_seen_the_change_and_made_all_pods(resource: Resource) -> None:
    one = workload(resource, "x")
    assert install.settled(one)
    assert not install.settled(merged(one, {"metadata": {"generation": 2}}))
    for count in [key for key in one["status"] if key != "observedGeneration"]:
        assert not install.settled(merged(one, {"status": {count: 1}})), count
    assert not install.settled(merged(one, {"status": None}))
