"""The scheduler as a process, on a real nats-server, with a placement that declares and runners that only speak."""

import asyncio
import os
import resource
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvberth.bus import Absent, Bus, BusError, BusSettings
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    KVCacheGoneV1,
    KVCacheSpecV1,
    NodeChangedV1,
    NodeGoneV1,
    PodGoneV1,
    PodReadyV1,
    PodScheduledV1,
    PodState,
    ProcessEndedV1,
    ProcessGoneV1,
    ProcessStartedV1,
    Resources,
)
from kvberth_schemas.requests import (
    ApplyRequest,
    NodeRequest,
    ObjectRequest,
    RegisterRequest,
    Reply,
    ScaleRequest,
    WorkloadReply,
    WorkloadRequest,
)
from kvberth_schemas.subjects import Entity, Service, Verb, WantKind
from kvberth_schemas.wants import EngineWantV1
from support.nats import nats_server
from support.waiting import until

GI = 2**30
DEADLINE_S = 15.0
ENGINE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  replicas: 1
  selector: {matchLabels: {model.aibrix.ai/name: llama}}
  template:
    metadata: {labels: {model.aibrix.ai/name: llama}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: In, values: [L20]}]}]
      terminationGracePeriodSeconds: 60
      containers:
        - name: vllm
          image: "vllm/vllm-openai:v0.8.5"
          env: [{name: AIBRIX_LLM_KV_CACHE_SOCKET, value: /var/run/vineyard.sock}]
          resources: {limits: {nvidia.com/gpu: 1, cpu: 1}}
          volumeMounts: [{name: kv, mountPath: /var/run}]
      volumes: [{name: kv, hostPath: {path: /var/run/vineyard-kubernetes/default/llama-kv}}]
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: llama}
"""
KVCACHE = """
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: KVCache
metadata: {name: llama-kv, annotations: {kvcache.orchestration.aibrix.ai/pod-affinity-workload: llama}}
spec: {replicas: 1, cacheSpec: {image: "aibrix/vineyardd:20241120", cpu: "4", memory: 72Gi}}
"""
BROKEN = """
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: KVCache
metadata: {name: bad-unit}
spec: {replicas: "3", cacheSpec: {image: "x", cpu: "1", memory: 72GB}}
"""


class Runner:
    """Speaks as the runner of a node: registers, lives, and says what became of processes. Runs nothing."""

    def __init__(self, bus, name, gpus):
        self.bus, self.name, self.gpus = bus, name, gpus
        self.writer = bus.writer(
            [subjects.events_of(Entity.PROCESS, name)],
            absent=Absent.GONE,
            gone=lambda row: ProcessGoneV1(
                node=name, namespace="default", owner=subjects.process_owner(row.subject)[0], role="engine"
            ),
        )

    async def register(self, **more):
        request = RegisterRequest(
            node=self.name,
            labels={"gpu": "L20"},
            allocatable=Resources(cpu_millis=60_000, memory_bytes=192 * GI, gpus=self.gpus),
            boot_id="boot",
            root=f"/tmp/r/{self.name}",
            **more,
        )
        return await self.bus.request(Verb.REGISTER, request, Reply)

    def started(self, pod, *, role="engine", owner=None, ready=True, **fields):
        owner = owner or pod.uid
        event = ProcessStartedV1(
            node=self.name,
            namespace="default",
            owner=owner,
            name=owner,
            role=role,
            pid=1,
            started=datetime.now(UTC),
            ready=ready,
            **fields,
        )
        return self.writer.put(subjects.process(self.name, "default", owner, role), event)

    def ended(self, pod):
        event = ProcessEndedV1(node=self.name, namespace="default", owner=pod.uid, name=pod.name, role="engine")
        return self.writer.put(subjects.process(self.name, "default", pod.uid, "engine"), event)


class Cluster:
    """A nats-server, who declares its streams, a reader of what the scheduler says, and the scheduler's process."""

    def __init__(self, nats, state):
        self.nats, self.state = nats, state
        self.process = None

    def bus(self, service, node=None):
        return Bus(BusSettings(url=self.nats.url, service=service, instance="test", node=node, term=1))

    async def start(self, **settings):
        self.process = await self.spawn(**settings)

    async def spawn(self, **settings):
        env = {
            **os.environ,
            "KVBERTH_NATS_URL": self.nats.url,
            "KVBERTH_STATE": str(self.state),
            "KVBERTH_INSTANCE": "under-test",
            **{f"KVBERTH_{name.upper()}": str(value) for name, value in settings.items()},
        }
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kvberth.bare.scheduler", env=env, stderr=asyncio.subprocess.PIPE
        )

    async def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        async with asyncio.timeout(DEADLINE_S):
            _, log = await self.process.communicate()
        return self.process.returncode, log.decode()

    async def ask(self, verb, message, reply=Reply):
        """Ask until somebody answers: the scheduler may still be starting."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    return await self.client.request(verb, message, reply)
                except BusError:
                    await asyncio.sleep(0.05)

    async def apply(self, *texts):
        return await self.ask(Verb.APPLY, ApplyRequest(text="---".join(texts)))

    def said(self, kind):
        return [row.message for row in self.events.rows.values() if isinstance(row.message, kind)]

    def active_pods(self):
        return [pod for pod in self.said(PodState) if not pod.deleting]

    def wants(self):
        return {row.message.pod_uid: row for row in self.want_view.rows.values()}

    def row(self, uid):
        return self.events.rows[subjects.pod("default", uid)]

    async def bound(self, *, not_uid=None):
        """Wait for the one active pod to be bound, and for its want."""

        def found():
            pods = [pod for pod in self.active_pods() if pod.uid != not_uid and pod.uid in self.wants()]
            return pods[0] if len(pods) == 1 and len(self.active_pods()) == 1 else None

        return await until(found, what="one active, bound pod with a want")

    @asynccontextmanager
    async def runner(self, name, gpus=1):
        async with self.bus(Service.RUNNER, name) as bus:
            runner = Runner(bus, name, gpus)
            async with runner.writer:
                runner.writer.ready()
                async with bus.heart([runner.writer]):
                    yield runner


@pytest.fixture
async def cluster(tmp_path):
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(nats_server(tmp_path))
        cluster = Cluster(nats, tmp_path / "state")
        cluster.client = await stack.enter_async_context(cluster.bus(Service.PLACEMENT))
        await cluster.client.declare()
        entities = (Entity.POD, Entity.NODE, Entity.SPEC)
        cluster.events = await stack.enter_async_context(
            cluster.client.view([subjects.events_of(item) for item in entities])
        )
        cluster.want_view = await stack.enter_async_context(cluster.client.view([subjects.wants_of(WantKind.ENGINE)]))
        yield cluster
        if cluster.process is not None and cluster.process.returncode is None:
            await cluster.end(signal.SIGKILL)


@pytest.fixture
async def nodes(cluster):
    """A started scheduler with the registered nodes l20-a (2 GPUs) and l20-b (1)."""
    await cluster.start()
    async with cluster.runner("l20-a", gpus=2) as a, cluster.runner("l20-b") as b:
        for runner in (a, b):
            await until_registered(cluster, runner)
        yield a, b


async def until_registered(cluster, runner):
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await runner.register()
                break
            except BusError:
                await asyncio.sleep(0.05)
    await until(
        lambda: any(node.name == runner.name and node.ready for node in cluster.said(NodeChangedV1)), what="ready"
    )


async def test_an_applied_engine_is_bound_and_wanted_with_the_binding_as_cause(cluster, nodes):
    reply = await cluster.apply(ENGINE, SERVICE, KVCACHE)
    assert [(item.kind, str(item.outcome)) for item in reply.results] == [
        ("Deployment", "accepted"),
        ("Service", "ignored"),
        ("KVCache", "accepted"),
    ]
    pod = await cluster.bound()
    assert isinstance(pod, PodScheduledV1)
    assert (pod.node, pod.model, pod.legacy, pod.workload.wanted) == ("l20-a", "llama", True, 1)
    row = cluster.wants()[pod.uid]
    want = row.message
    assert isinstance(want, EngineWantV1)
    assert (row.subject.node, want.state, want.grace_s, want.gpus) == ("l20-a", "run", 60, 1)
    assert row.envelope.cause == cluster.row(pod.uid).envelope.id
    (spec,) = await until(lambda: cluster.said(KVCacheSpecV1), what="the spec")
    assert (spec.generation, spec.name) == (1, "llama-kv")
    assert spec.manifest["spec"]["cacheSpec"]["memory"] == "72Gi"


async def test_readiness_and_requests_follow_the_processes_with_their_events_as_cause(cluster, nodes):
    await cluster.apply(ENGINE)
    pod = await cluster.bound()
    event_id = nodes[0].started(pod, gpus=1, restarts=2)
    nodes[0].started(None, role="cache", owner="llama-kv", memory_bytes=72 * GI, cpu_millis=4000)
    ready = await until(lambda: [item for item in cluster.said(PodReadyV1) if item.ready], what="ready")
    assert ready[0].restarts == 2
    assert cluster.row(pod.uid).envelope.cause == event_id
    asked = Resources(cpu_millis=5000, memory_bytes=72 * GI, gpus=1)
    await until(lambda: [item for item in cluster.said(NodeChangedV1) if item.requested == asked], what="requested")


async def test_an_engine_moves_off_a_cordoned_node_and_its_want_goes_when_it_ended(cluster, nodes):
    a, _ = nodes
    await cluster.apply(ENGINE, KVCACHE)
    old = await cluster.bound()
    a.started(old)
    await cluster.ask(Verb.CORDON, NodeRequest(node="l20-a"))
    await cluster.ask(Verb.DELETE, ObjectRequest(kind="Pod", name=old.name))
    new = await cluster.bound(not_uid=old.uid)
    assert new.node == "l20-b"
    await until(lambda: cluster.wants()[old.uid].message.state == "stop", what="the stop")
    assert not cluster.said(PodGoneV1)
    reply = await cluster.ask(
        Verb.WORKLOAD, WorkloadRequest(namespace="default", kind="Deployment", name="llama"), WorkloadReply
    )
    assert (reply.found, reply.wanted, reply.bound, reply.deleting) == (True, 1, 1, 1)
    event_id = a.ended(old)
    (gone,) = await until(lambda: cluster.said(PodGoneV1), what="gone")
    assert (gone.uid, gone.node, gone.workload.wanted) == (old.uid, "l20-a", 1)
    assert cluster.row(old.uid).envelope.cause == event_id
    await only_want_left(cluster, new.uid)


async def only_want_left(cluster, uid):
    """Wait until the stream holds the want of one pod only. Read anew: a running view does not hear of a purge."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            async with cluster.client.view([subjects.wants_of(WantKind.ENGINE)]) as view:
                await until(lambda view=view: view.complete, what="the wants")
                if {subject.object for subject in view.rows} == {uid}:
                    return
            await asyncio.sleep(0.05)


async def test_broken_documents_are_refused_by_field_and_the_others_accepted(cluster, nodes):
    reply = await cluster.apply(BROKEN, KVCACHE)
    fields = {item.field for item in reply.results if str(item.outcome) == "refused"}
    assert fields == {"spec.replicas", "spec.cacheSpec.memory"}
    assert [item.name for item in reply.results if str(item.outcome) == "accepted"] == ["llama-kv"]
    specs = await until(lambda: cluster.said(KVCacheSpecV1), what="the spec")
    assert [spec.name for spec in specs] == ["llama-kv"]


async def test_a_deleted_kvcache_is_gone_by_the_users_word_also_after_a_kill_and_a_wiped_bus(cluster, nodes):
    await cluster.apply(KVCACHE)
    await until(lambda: cluster.said(KVCacheSpecV1), what="the spec")
    await cluster.ask(Verb.DELETE, ObjectRequest(kind="KVCache", name="llama-kv"))
    assert (await until(lambda: cluster.said(KVCacheGoneV1), what="gone"))[0].by_user
    await restart_with_a_wiped_bus(cluster)
    assert (await until(lambda: cluster.said(KVCacheGoneV1), what="gone again"))[0].by_user


async def restart_with_a_wiped_bus(cluster):
    await cluster.end(signal.SIGKILL)
    await cluster.nats.kill()
    cluster.nats.wipe()
    await cluster.nats.start()
    await until(lambda: not cluster.events.rows, what="an empty stream")
    await cluster.start()


async def test_after_a_kill_and_a_wiped_bus_the_same_pods_come_back_and_nothing_is_replaced(cluster, nodes):
    a, _ = nodes
    await cluster.apply(ENGINE, KVCACHE)
    pod = await cluster.bound()
    a.started(pod)
    await until(lambda: cluster.said(PodReadyV1), what="ready")
    (spec,) = cluster.said(KVCacheSpecV1)
    await restart_with_a_wiped_bus(cluster)
    back = await cluster.bound()
    assert (back.uid, back.node, back.ready) == (pod.uid, pod.node, True)
    (again,) = await until(lambda: cluster.said(KVCacheSpecV1), what="the spec")
    assert (again.uid, again.generation, again.created) == (spec.uid, spec.generation, spec.created)
    assert cluster.wants()[pod.uid].message.state == "run"
    await until(lambda: len(cluster.said(NodeChangedV1)) == 2, what="both nodes")
    assert not cluster.said(PodGoneV1)


async def test_a_restarted_scheduler_says_nothing_anew_that_the_stream_holds_already(cluster, nodes):
    await cluster.apply(ENGINE, KVCACHE)
    pod = await cluster.bound()
    (spec,) = await until(lambda: cluster.said(KVCacheSpecV1), what="the spec")
    pod_id = cluster.row(pod.uid).envelope.id
    term = cluster.wants()[pod.uid].message.term
    code, _ = await cluster.end()
    assert code == 0
    await cluster.start()
    await until(lambda: cluster.wants()[pod.uid].message.term > term, what="the want under the new term")
    assert cluster.row(pod.uid).envelope.id == pod_id
    assert cluster.said(KVCacheSpecV1) == [spec]


async def test_a_scheduler_that_lost_its_directory_takes_over_what_runs(cluster, nodes):
    a, _ = nodes
    await cluster.apply(ENGINE)
    pod = await cluster.bound()
    a.started(pod, gpus=1, workload="Deployment/llama", model="llama")
    await until(lambda: cluster.said(PodReadyV1), what="ready")
    await cluster.end(signal.SIGKILL)
    for path in sorted((cluster.state / "scheduler").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    await cluster.start()
    reply = await cluster.ask(Verb.SCALE, ScaleRequest(name="llama", replicas=1))
    assert str(reply.results[0].outcome) == "refused"
    reply = await cluster.apply(ENGINE)
    assert reply.results[0].sentence == "created"

    def owned_again():
        return [
            item for item in cluster.said(PodReadyV1) if item.uid == pod.uid and item.workload.uid != pod.workload.uid
        ]

    (adopted,) = await until(owned_again, what="the pod under its new owner")
    assert (adopted.node, adopted.workload.wanted) == ("l20-a", 1)
    assert len(cluster.active_pods()) == 1
    assert not cluster.said(PodGoneV1)
    assert {node.name for node in cluster.said(NodeChangedV1)} == {"l20-a", "l20-b"}
    assert cluster.wants()[pod.uid].message.state == "run"
    _, log = await cluster.end()
    assert "taken over" in log


async def test_a_silent_nodes_engines_go_elsewhere_after_the_eviction_time_and_stay_known(cluster):
    await cluster.start(not_ready_eviction_s=4)
    async with cluster.runner("l20-b") as b:
        async with cluster.runner("l20-a", gpus=2) as a:
            for runner in (a, b):
                await until_registered(cluster, runner)
            await cluster.apply(ENGINE)
            old = await cluster.bound()
            assert old.node == "l20-a"
        await until(lambda: [node for node in cluster.said(NodeChangedV1) if not node.ready], what="not ready")
        new = await cluster.bound(not_uid=old.uid)
        assert new.node == "l20-b"
        assert not cluster.said(PodGoneV1)
        await cluster.ask(Verb.DELETE_NODE, NodeRequest(node="l20-a"))
        (gone,) = await until(lambda: cluster.said(PodGoneV1), what="gone")
        assert gone.uid == old.uid
        assert [node.name for node in await until(lambda: cluster.said(NodeGoneV1), what="the node's end")] == ["l20-a"]


async def test_a_dead_bus_is_not_the_loss_of_every_node(cluster):
    await cluster.start(not_ready_eviction_s=4)
    async with cluster.runner("l20-a", gpus=2) as a, cluster.runner("l20-b") as b:
        for runner in (a, b):
            await until_registered(cluster, runner)
        await cluster.apply(ENGINE)
        pod = await cluster.bound()
        heard = []
        cluster.events.add_listener(lambda row: heard.append(row.message))
        await cluster.nats.kill()
        await asyncio.sleep(6)  # the time that must not count: longer than the eviction time
        await cluster.nats.start()
        await until(lambda: cluster.events.complete, what="the bus")
        await cluster.ask(Verb.CORDON, NodeRequest(node="l20-b"))
        await until(lambda: [item for item in cluster.said(NodeChangedV1) if item.unschedulable], what="the cordon")
        assert not [item for item in heard if isinstance(item, NodeChangedV1) and not item.ready]
        assert cluster.active_pods()[0].uid == pod.uid


async def test_a_second_scheduler_of_a_directory_refuses_with_a_sentence(cluster):
    await cluster.start()
    await cluster.apply(KVCACHE)
    second = await cluster.spawn()
    async with asyncio.timeout(DEADLINE_S):
        _, log = await second.communicate()
    assert second.returncode == 1
    assert f"(pid {cluster.process.pid})" in log.decode()
    assert "Traceback" not in log.decode()
    assert str((await cluster.apply(KVCACHE)).results[0].outcome) == "accepted"


async def test_what_was_answered_is_on_disk_before_the_answer(cluster):
    await cluster.start()
    await cluster.apply(KVCACHE)
    await cluster.end(signal.SIGKILL)
    (path,) = Path(cluster.state / "scheduler" / "manifests").glob("*.json")
    assert "llama-kv" in path.read_text()


async def test_a_full_disk_is_one_sentence_changes_nothing_and_is_over_when_there_is_room(cluster, nodes):
    resource.prlimit(cluster.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    (refusal,) = (await cluster.client.request(Verb.APPLY, ApplyRequest(text=ENGINE), Reply)).results
    assert refusal.outcome == "refused"
    assert "nothing was changed, because " in refusal.sentence
    assert "scheduler can't be written (File too large); make room there" in refusal.sentence
    resource.prlimit(cluster.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert cluster.said(PodState) == []
    assert (await cluster.apply(ENGINE)).results[0].sentence.startswith("created")
    pod = await cluster.bound()
    await cluster.end(signal.SIGKILL)
    await cluster.start()
    question = WorkloadRequest(kind="Deployment", namespace="default", name="llama")
    assert (await cluster.ask(Verb.WORKLOAD, question, WorkloadReply)).found
    assert (await cluster.bound()).uid == pod.uid


async def test_a_scheduler_that_was_taken_over_ends_with_a_sentence_and_acts_no_more(cluster, nodes):
    await cluster.apply(ENGINE)
    pod = await cluster.bound()
    settings = BusSettings(url=cluster.nats.url, service=Service.SCHEDULER, instance="other", term=2_000_000_000)
    async with Bus(settings) as other, other.writer([subjects.wants_of(WantKind.ENGINE)], absent=Absent.KEEP) as writer:
        want = cluster.wants()[pod.uid].message.model_copy(update={"term": 2_000_000_000, "grace_s": 1.0})
        writer.put(subjects.want(WantKind.ENGINE, pod.node, "default", pod.uid), want)
        writer.ready()
        async with asyncio.timeout(DEADLINE_S):
            _, log = await cluster.process.communicate()
    assert cluster.process.returncode == 3
    assert "Another scheduler with a higher term speaks on the bus, so this one ends" in log.decode()
    assert "Traceback" not in log.decode()
    assert cluster.wants()[pod.uid].message.term == 2_000_000_000
