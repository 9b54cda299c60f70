"""Binding and workloads under arbitrary inputs: never too much on a node, never a cordoned one, order irrelevant."""

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kvberth.bare.scheduler.binding import Ask, Candidate, add, bind
from kvberth.bare.scheduler.records import NodeRecord, PodRecord, PodShape
from kvberth.bare.scheduler.workloads import plan_pods
from kvberth_schemas.events import Owner, Resources, Taint, Toleration

START = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCES = ("cpu_millis", "memory_bytes", "gpus")

amounts = st.builds(Resources, cpu_millis=st.integers(0, 8), memory_bytes=st.integers(0, 8), gpus=st.integers(0, 4))
labels = st.fixed_dictionaries({"gpu": st.sampled_from(["L20", "T4"])})
taint = Taint(key="team", value="llm", effect="NoSchedule")


@st.composite
def candidate_lists(draw):
    found = []
    for index in range(draw(st.integers(0, 5))):
        record = NodeRecord(
            name=f"n{index}",
            allocatable=draw(amounts),
            labels=draw(labels),
            taints=draw(st.sampled_from([(), (taint,)])),
            cordoned=draw(st.booleans()),
        )
        found.append(Candidate(record, draw(st.booleans()), draw(amounts)))
    return found


@st.composite
def ask_lists(draw):
    found = []
    for index in range(draw(st.integers(0, 6))):
        shape = PodShape(
            model="m",
            requests=draw(amounts),
            node_selector=draw(st.sampled_from([{}, {"gpu": "L20"}])),
            tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
        )
        created = START + timedelta(seconds=draw(st.integers(0, 2)))
        found.append(Ask(f"u{index}", "default", f"p{index}", created, shape))
    return found


@given(ask_lists(), candidate_lists())
def test_no_node_is_given_more_than_it_has_free(asks, candidates):
    by_uid = {ask.uid: ask for ask in asks}
    bindings = bind(asks, candidates)
    for candidate in candidates:
        mine = [by_uid[item.uid].shape.requests for item in bindings if item.node == candidate.node.name]
        total = candidate.requested
        for amount in mine:
            total = add(total, amount)
        for name in RESOURCES:
            if any(getattr(amount, name) for amount in mine):
                assert getattr(total, name) <= getattr(candidate.node.allocatable, name)


@given(ask_lists(), candidate_lists())
def test_every_pod_gets_one_answer_and_never_a_node_that_is_closed_to_it(asks, candidates):
    nodes, by_uid = {item.node.name: item for item in candidates}, {ask.uid: ask for ask in asks}
    bindings = bind(asks, candidates)
    assert sorted(item.uid for item in bindings) == sorted(by_uid)
    for item in bindings:
        if item.node is None:
            assert item.why.startswith(f"0/{len(nodes)} nodes: ")
            continue
        chosen, shape = nodes[item.node], by_uid[item.uid].shape
        assert chosen.ready
        assert not chosen.node.unschedulable
        assert shape.node_selector.items() <= chosen.node.labels.items()
        assert not chosen.node.taints or shape.tolerations


@given(ask_lists(), candidate_lists(), st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_is_irrelevant(asks, candidates, order: random.Random):
    shuffled_asks, shuffled_candidates = list(asks), list(candidates)
    order.shuffle(shuffled_asks)
    order.shuffle(shuffled_candidates)
    assert bind(shuffled_asks, shuffled_candidates) == bind(asks, candidates)


@given(ask_lists(), candidate_lists())
def test_a_pod_waits_only_when_no_node_is_left_for_it(asks, candidates):
    bindings = bind(asks, candidates)
    taken = {item.node.name: item for item in candidates}
    by_uid = {ask.uid: ask for ask in asks}
    for item in bindings:
        if item.node is not None:
            node = taken[item.node]
            requested = add(node.requested, by_uid[item.uid].shape.requests)
            taken[item.node] = Candidate(node.node, node.ready, requested)
    waiting = [by_uid[item.uid] for item in bindings if item.node is None]
    assert all(item.node is None for item in bind(waiting, taken.values()))


@st.composite
def pod_lists(draw, kind):
    found = []
    for index in range(draw(st.integers(0, 6))):
        name = f"w-{index}" if kind == "StatefulSet" else f"w-x{index}"
        pod = PodRecord(
            uid=f"u{index}",
            name=name,
            namespace="default",
            owner=Owner(kind=kind, name="w", uid="w"),
            created=START + timedelta(seconds=draw(st.integers(0, 3))),
            shape=PodShape(model="m"),
            node=draw(st.sampled_from([None, "n"])),
            ready=draw(st.booleans()),
            deleting=draw(st.booleans()),
        )
        found.append(pod)
    return found


@given(
    st.sampled_from(["Deployment", "StatefulSet"]).flatmap(lambda kind: st.tuples(st.just(kind), pod_lists(kind))),
    st.booleans(),
)
def test_a_workload_converges_to_its_replicas_once_the_deleted_are_gone_and_the_others_ready(drawn, ordered):
    kind, pods = drawn
    for replicas in (0, 1, 3):
        present = list(pods)
        for round_number in range(10):
            plan = plan_pods(kind, "w", replicas, present, ordered=ordered)
            active = [pod for pod in present if pod.active]
            assert not (plan.create and plan.delete) or kind == "StatefulSet"
            assert set(plan.delete) <= {pod.uid for pod in active}
            made = [
                PodRecord(
                    uid=f"r{round_number}-{index}",
                    name=name or f"w-r{round_number}-{index}",
                    namespace="default",
                    owner=Owner(kind=kind, name="w", uid="w"),
                    created=START,
                    shape=PodShape(model="m"),
                )
                for index, name in enumerate(plan.create)
            ]
            kept = [pod for pod in (*active, *made) if pod.uid not in plan.delete]
            present = [pod.model_copy(update={"ready": True}) for pod in kept]
        assert len(present) == replicas
        assert len({pod.name for pod in present}) == replicas
        final = plan_pods(kind, "w", replicas, present, ordered=ordered)
        assert (final.create, final.delete) == ((), ())
