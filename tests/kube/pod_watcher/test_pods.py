"""What is said of engines' pods as they come, run and go on a real API server with its controllers and scheduler."""

import asyncio

from kube.pod_watcher.rig import (
    DIRECTORY,
    MODEL,
    Heard,
    Replicas,
    deploy_engine,
    engine_spec,
    heard_of,
    kubelet_says,
)
from kube.rig import create, delete, merge
from kvberth.kube.client import Client
from kvberth.kube.resources import DEPLOYMENTS, NODES, PODS, STATEFUL_SETS
from kvberth_schemas.events import (
    Owner,
    PodGoneV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    Resources,
    SocketMount,
)
from support.waiting import until


async def test_an_engine_is_followed_from_waiting_to_gone(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    await until(lambda: heard.fresh)
    await merge(client, NODES, None, node, {"spec": {"unschedulable": True}})
    deployment = await deploy_engine(client, namespace, selector)
    (waiting,) = await heard_of(heard, namespace)
    await until(lambda: "nodes are available" in heard.living(namespace)[0].why)
    assert isinstance(waiting, PodWaitingV1)

    await merge(client, NODES, None, node, {"spec": {"unschedulable": None}})
    await until(lambda: isinstance(heard.living(namespace)[0], PodScheduledV1))
    (scheduled,) = heard.living(namespace)
    assert scheduled.node == node
    assert scheduled.role is PodRole.ENGINE
    assert scheduled.model == MODEL
    assert scheduled.legacy
    assert not scheduled.ready
    assert scheduled.workload == Owner(kind="Deployment", name="llama", uid=deployment["metadata"]["uid"], wanted=1)
    assert scheduled.requests == Resources(cpu_millis=1000, memory_bytes=2**31 + 2**28, gpus=1)
    assert scheduled.sockets == (SocketMount(host_path=f"{DIRECTORY}/{namespace}/kv", mount_path="/var/run/vineyard"),)
    assert (scheduled.run_as_user, scheduled.supplemental_groups) == (1000, (2001, 2002))
    assert "nvidia.com/gpu" in {one.key for one in scheduled.tolerations}

    await kubelet_says(client, namespace, scheduled.name, ready=True)
    await until(lambda: heard.living(namespace)[0].ready)
    await kubelet_says(client, namespace, scheduled.name, ready=False, restarts=1)
    await until(lambda: heard.living(namespace)[0].restarts == 1)
    assert isinstance(heard.living(namespace)[0], PodReadyV1), "it has been ready"
    assert not heard.living(namespace)[0].ready

    await delete(client, PODS, namespace, scheduled.name)
    await until(lambda: heard.pods(namespace)[scheduled.uid].deleting)
    await until(lambda: len(heard.living(namespace)) == 2)
    await delete(client, PODS, namespace, scheduled.name, gracePeriodSeconds=0)
    await until(lambda: isinstance(heard.pods(namespace)[scheduled.uid], PodGoneV1))
    gone = heard.pods(namespace)[scheduled.uid]
    assert (gone.node, gone.model, gone.workload) == (node, MODEL, scheduled.workload)
    (replacement,) = heard.living(namespace)
    assert replacement.uid != scheduled.uid
    assert replacement.workload == scheduled.workload


async def test_a_pod_of_the_same_name_is_another_one(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    labels = {"model.aibrix.ai/name": MODEL}
    template = {"metadata": {"labels": labels}, "spec": engine_spec(namespace, selector)}
    spec = {"replicas": 1, "serviceName": "qwen", "selector": {"matchLabels": labels}, "template": template}
    owner = await create(client, STATEFUL_SETS, namespace, {"metadata": {"name": "qwen"}, "spec": spec})
    (first,) = await heard_of(heard, namespace)
    assert first.workload == Owner(kind="StatefulSet", name="qwen", uid=owner["metadata"]["uid"], wanted=1)
    await delete(client, PODS, namespace, "qwen-0", gracePeriodSeconds=0)
    await until(lambda: len(heard.pods(namespace)) == 2 and len(heard.living(namespace)) == 1)
    (second,) = heard.living(namespace)
    assert (second.name, second.uid != first.uid) == ("qwen-0", True)
    assert isinstance(heard.pods(namespace)[first.uid], PodGoneV1)


async def test_scaling_is_told_with_the_pods(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    await deploy_engine(client, namespace, selector)
    await heard_of(heard, namespace)
    await merge(client, DEPLOYMENTS, namespace, "llama", {"spec": {"replicas": 3}})
    await heard_of(heard, namespace, 3)
    await until(lambda: [one.workload.wanted for one in heard.living(namespace)] == [3, 3, 3])
    await merge(client, DEPLOYMENTS, namespace, "llama", {"spec": {"replicas": 0}})
    await until(lambda: all(one.deleting and one.workload.wanted == 0 for one in heard.living(namespace)))


async def test_a_pod_that_ended_for_good_is_gone_although_its_object_stays(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    await deploy_engine(client, namespace, selector)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    (pod,) = heard.living(namespace)
    await until(lambda: heard.requested(node).gpus == 1)
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    await merge(client, PODS, namespace, pod.name, {"status": status}, subresource="status")
    await until(lambda: isinstance(heard.pods(namespace)[pod.uid], PodGoneV1))
    assert "low on resource: memory" in heard.pods(namespace)[pod.uid].why
    await until(lambda: len(heard.living(namespace)) == 1)
    await until(lambda: heard.requested(node).gpus == 1)


async def test_the_gate_tells_its_end_and_other_pods_are_not_spoken_of(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "250m"}}}
    other = {"nodeSelector": selector, "containers": [container]}
    await create(client, PODS, namespace, {"metadata": {"name": "web"}, "spec": other})
    cache = {"metadata": {"name": "cache", "labels": {"kvberth.dev/kvcache": "kv"}}, "spec": other}
    await create(client, PODS, namespace, cache)
    await create(client, PODS, namespace, {"metadata": {"name": "mounts"}, "spec": engine_spec(namespace, selector)})
    await heard_of(heard, namespace, 2)
    by_name = {one.name: one for one in heard.living(namespace)}
    assert set(by_name) == {"cache", "mounts"}
    assert (by_name["cache"].role, by_name["cache"].kvcache) == (PodRole.CACHE, "kv")
    assert (by_name["mounts"].role, by_name["mounts"].model) == (PodRole.ENGINE, None)
    assert by_name["mounts"].workload is None
    await until(lambda: heard.requested(node).cpu_millis == 250 + 250 + 1000)
    assert by_name["mounts"].gate is None

    message = '{"kvberth": "gate", "outcome": "open", "reason": "SocketAnswered", "waited_s": 0.4}'
    ended = {"terminated": {"exitCode": 0, "message": message}}
    told = {"name": "init-model", "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": ended}
    status = {"status": {"phase": "Pending", "initContainerStatuses": [told]}}
    await merge(client, PODS, namespace, "mounts", status, subresource="status")
    uid = by_name["mounts"].uid
    await until(lambda: heard.pods(namespace)[uid].gate is not None)
    gate = heard.pods(namespace)[uid].gate
    assert (gate.outcome, gate.reason, gate.waited_s) == ("open", "SocketAnswered", 0.4)


async def test_a_bound_engine_is_told_at_once(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await watchers.start()
    await until(lambda: heard.fresh)
    loop = asyncio.get_running_loop()
    await create(client, PODS, namespace, {"metadata": {"name": "one"}, "spec": engine_spec(namespace, selector)})
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    since = loop.time()
    await kubelet_says(client, namespace, "one", ready=True)
    await until(lambda: heard.living(namespace)[0].ready)
    assert loop.time() - since < 1.0
