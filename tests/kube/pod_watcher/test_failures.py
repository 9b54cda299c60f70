"""Restarts, leaders that go, watches that break or fall silent: nothing false is said, nothing is lost."""

import signal

from kube.pod_watcher.rig import Heard, Replicas, deploy_engine, end, heard_of, kubelet_says, token_of_the_install
from kube.pod_watcher.test_nodes_and_kvcaches import FIRST, apply
from kube.rig import delete, get, merge
from kvberth.kube.client import Client
from kvberth.kube.resources import DEPLOYMENTS, KVCACHES, LEASES, PODS
from kvberth_schemas.events import KVCacheGoneV1, PodGoneV1, PodReadyV1, PodScheduledV1
from support.api_server import ControlPlane
from support.nats import NatsServer
from support.tcp_proxy import TcpProxy
from support.waiting import seconds_until, until

QUICK_LEASE = {"KVBERTH_LEASE_DURATION_S": "6"}
TAKEN_OVER_WITHIN_S = 6 + 1.2 + 2.0
"""The Lease, the longest pause between two looks at it, and a slow machine's second."""


async def term(client: Client, namespace: str) -> int:
    lease = await get(client, LEASES, namespace, "kvberth-pod-watcher")
    return int(lease["spec"]["leaseTransitions"])


async def test_a_restart_says_nothing_that_was_said_and_remembers_who_was_ready(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    first = await watchers.start()
    await apply(client, namespace, "one", FIRST)
    await deploy_engine(client, namespace, selector)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    (pod,) = heard.living(namespace)
    await kubelet_says(client, namespace, pod.name, ready=True)
    await until(lambda: heard.living(namespace)[0].ready)
    await kubelet_says(client, namespace, pod.name, ready=False)
    await until(lambda: not heard.living(namespace)[0].ready)
    assert await end(first) == 0
    before = len(heard.rows)
    await until(lambda: not heard.fresh)
    await watchers.start()
    await until(lambda: heard.fresh)
    assert [row.message for row in heard.rows[before:]] == []
    assert isinstance(heard.living(namespace)[0], PodReadyV1)


async def test_a_killed_leader_is_followed_within_lease_and_retry_and_nothing_of_between_is_lost(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    first = await watchers.start(**QUICK_LEASE)
    await until(lambda: heard.fresh)
    await watchers.start(**QUICK_LEASE)
    await until(lambda: "watch is open" in watchers.log(1))
    await apply(client, namespace, "one", FIRST)
    await deploy_engine(client, namespace, selector)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    (pod,) = heard.living(namespace)
    old = await term(client, namespace)

    await end(first, signal.SIGKILL)
    await delete(client, KVCACHES, namespace, "one")
    await delete(client, PODS, namespace, pod.name, gracePeriodSeconds=0)
    took_s = await seconds_until(lambda: isinstance(heard.spec(namespace, "one"), KVCacheGoneV1))
    assert took_s <= TAKEN_OVER_WITHIN_S
    assert heard.spec(namespace, "one").by_user, "the standby saw the live object deleted"
    await until(lambda: isinstance(heard.pods(namespace)[pod.uid], PodGoneV1))
    await until(lambda: heard.fresh and len(heard.living(namespace)) == 1)
    assert await term(client, namespace) == old + 1


async def test_a_stopped_leader_is_followed_within_two_seconds(
    client: Client, namespace: str, watchers: Replicas, heard: Heard
) -> None:
    first = await watchers.start()
    await until(lambda: heard.fresh)
    await watchers.start()
    await until(lambda: watchers.log(1).count("watch is open") == 3)
    await apply(client, namespace, "one", FIRST)
    await until(lambda: heard.spec(namespace, "one") is not None)
    first.send_signal(signal.SIGTERM)
    await merge(client, KVCACHES, namespace, "one", {"spec": {"replicas": 3}})
    await first.wait()
    await delete(client, KVCACHES, namespace, "one")
    took_s = await seconds_until(lambda: isinstance(heard.spec(namespace, "one"), KVCacheGoneV1))
    assert took_s <= 2.0
    assert heard.spec(namespace, "one").by_user
    assert first.returncode == 0


async def test_an_outage_of_the_api_server_is_unknown_and_leaves_nothing_false(
    plane: ControlPlane,
    client: Client,
    proxy: TcpProxy,
    namespace: str,
    node: str,
    selector: dict[str, str],
    watchers: Replicas,
    heard: Heard,
) -> None:
    way = str(plane.kubeconfig("through-proxy", server=proxy.url))
    await watchers.start(KVBERTH_KUBECONFIG=way)
    await apply(client, namespace, "stays", FIRST)
    await apply(client, namespace, "goes", FIRST)
    await deploy_engine(client, namespace, selector, replicas=2)
    await until(lambda: sum(isinstance(one, PodScheduledV1) for one in heard.living(namespace)) == 2)
    goes, stays = heard.living(namespace)
    await until(lambda: heard.fresh)
    await proxy.close()
    before = len(heard.rows)
    await delete(client, KVCACHES, namespace, "goes")
    await merge(client, DEPLOYMENTS, namespace, "llama", {"spec": {"replicas": 1}})
    await delete(client, PODS, namespace, goes.name, gracePeriodSeconds=0)
    plane.compact()
    await until(lambda: not heard.fresh)
    assert heard.rows[before:] == [], "what nobody saw is not said"
    await proxy.open()
    await until(lambda: heard.fresh, within_s=60.0)
    assert isinstance(heard.pods(namespace)[goes.uid], PodGoneV1)
    assert heard.pods(namespace)[stays.uid].node == node
    assert isinstance(heard.spec(namespace, "goes"), KVCacheGoneV1)
    assert not isinstance(heard.spec(namespace, "stays"), KVCacheGoneV1)


async def test_a_silent_api_server_is_unknown(
    plane: ControlPlane, proxy: TcpProxy, client: Client, namespace: str, watchers: Replicas, heard: Heard
) -> None:
    way = str(plane.kubeconfig("through-silence", server=proxy.url))
    await watchers.start(KVBERTH_KUBECONFIG=way, KVBERTH_SILENCE_S="3")
    await apply(client, namespace, "one", FIRST)
    await until(lambda: heard.fresh and heard.spec(namespace, "one") is not None)
    proxy.silence()
    await until(lambda: not heard.fresh, within_s=30.0)
    await delete(client, KVCACHES, namespace, "one")
    assert not isinstance(heard.spec(namespace, "one"), KVCacheGoneV1)
    proxy.reset()
    await until(lambda: isinstance(heard.spec(namespace, "one"), KVCacheGoneV1), within_s=60.0)


async def test_a_wiped_bus_is_filled_again(
    client: Client,
    namespace: str,
    node: str,
    selector: dict[str, str],
    watchers: Replicas,
    heard: Heard,
    nats: NatsServer,
) -> None:
    await watchers.start()
    await apply(client, namespace, "one", FIRST)
    await deploy_engine(client, namespace, selector)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    await until(lambda: heard.fresh)
    known = dict(heard.view.rows)
    await nats.kill()
    nats.wipe()
    await nats.start()
    await until(lambda: heard.fresh and len(heard.view.rows) >= len(known), within_s=30.0)
    assert {subject: row.message for subject, row in heard.view.rows.items()} == {
        subject: row.message for subject, row in known.items()
    }


async def test_only_the_namespaces_that_are_named_are_watched(
    client: Client, namespace: str, node: str, selector: dict[str, str], watchers: Replicas, heard: Heard
) -> None:
    await deploy_engine(client, namespace, selector)
    await apply(client, namespace, "one", FIRST)
    await watchers.start(KVBERTH_NAMESPACES=f"kube-public, {namespace}")
    await heard_of(heard, namespace)
    await until(lambda: heard.fresh and heard.spec(namespace, "one") is not None)
    others = {getattr(subject, "namespace", None) for subject in heard.view.rows} - {namespace, None}
    assert others == set()


async def test_a_leader_that_wakes_after_its_lease_ran_out_says_nothing_false(
    client: Client, namespace: str, watchers: Replicas, heard: Heard
) -> None:
    first = await watchers.start(**QUICK_LEASE)
    await apply(client, namespace, "one", FIRST)
    await until(lambda: heard.fresh and heard.spec(namespace, "one") is not None)
    await watchers.start(**QUICK_LEASE)
    await until(lambda: watchers.log(1).count("watch is open") == 3)
    first.send_signal(signal.SIGSTOP)
    await delete(client, KVCACHES, namespace, "one")
    await until(lambda: isinstance(heard.spec(namespace, "one"), KVCacheGoneV1))
    second = await apply(client, namespace, "one", FIRST)
    await until(lambda: heard.spec(namespace, "one").uid == second["metadata"]["uid"])
    before = len(heard.told(namespace))
    first.send_signal(signal.SIGCONT)
    await until(lambda: '"outcome": "lost"' in watchers.log(0))
    await merge(client, KVCACHES, namespace, "one", {"spec": {"replicas": 5}})
    await until(lambda: heard.spec(namespace, "one").generation == 2)
    await until(lambda: heard.fresh)
    assert [one.generation for one in heard.told(namespace)[before:]] == [2]


async def test_the_rights_of_the_install_are_enough(
    plane: ControlPlane,
    client: Client,
    namespace: str,
    node: str,
    selector: dict[str, str],
    watchers: Replicas,
    heard: Heard,
) -> None:
    token = await token_of_the_install(client, namespace)
    await watchers.start(KVBERTH_KUBECONFIG=str(plane.kubeconfig("pod-watcher", token=token)))
    await deploy_engine(client, namespace, selector)
    await until(lambda: any(isinstance(one, PodScheduledV1) for one in heard.living(namespace)))
    assert heard.living(namespace)[0].workload.wanted == 1
    await until(lambda: heard.fresh)


async def test_an_owner_that_does_not_answer_holds_an_engine_back_for_two_seconds_at_most(
    plane: ControlPlane,
    client: Client,
    proxy: TcpProxy,
    namespace: str,
    node: str,
    selector: dict[str, str],
    watchers: Replicas,
    heard: Heard,
) -> None:
    await watchers.start(KVBERTH_KUBECONFIG=str(plane.kubeconfig("slow-owners", server=proxy.url)))
    await until(lambda: heard.fresh)
    gate = proxy.hold(r"/replicasets/")
    await deploy_engine(client, namespace, selector)
    await gate.reached.wait()
    assert heard.pods(namespace) == {}
    took_s = await seconds_until(lambda: heard.living(namespace))
    assert 1.0 <= took_s <= 3.0
    assert heard.living(namespace)[0].workload is None, "not known is not another owner"
    gate.released.set()
    await until(lambda: heard.living(namespace)[0].workload is not None)
    assert heard.living(namespace)[0].workload.kind == "Deployment"
