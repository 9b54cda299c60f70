"""Which pods a workload gains and loses."""

from datetime import UTC, datetime, timedelta

import pytest

from kvberth.bare.scheduler.records import PodRecord, PodShape
from kvberth.bare.scheduler.workloads import plan_pods
from kvberth_schemas.events import Owner

START = datetime(2026, 1, 1, tzinfo=UTC)


def pod(uid, *, kind="Deployment", age_s=0, **fields):
    return PodRecord(
        uid=uid,
        name=fields.pop("name", uid),
        namespace="default",
        owner=Owner(kind=kind, name="w", uid="w"),
        created=START - timedelta(seconds=age_s),
        shape=PodShape(model="m"),
        **fields,
    )


def test_missing_pods_are_made():
    assert plan_pods("Deployment", "w", 3, [pod("a")]).create == (None, None)


def test_a_deployments_replacement_is_made_while_the_old_pod_is_being_deleted():
    assert plan_pods("Deployment", "w", 1, [pod("a", deleting=True)]).create == (None,)


def test_a_parallel_stateful_set_makes_all_its_pods_at_once():
    pods = [ordinal(1, ready=False)]
    assert plan_pods("StatefulSet", "w", 3, pods, ordered=False).create == ("w-0", "w-2")


def test_a_stateful_sets_replacement_waits_until_the_name_is_free():
    assert plan_pods("StatefulSet", "w", 1, [pod("a", name="w-0", deleting=True)]).create == ()
    assert plan_pods("StatefulSet", "w", 1, []).create == ("w-0",)


def test_surplus_pods_go_unbound_first_then_unready_then_newest():
    pods = [
        pod("old", age_s=9, node="n", ready=True),
        pod("new", age_s=1, node="n", ready=True),
        pod("unready", age_s=9, node="n"),
        pod("unbound", age_s=9),
    ]
    assert plan_pods("Deployment", "w", 3, pods).delete == ("unbound",)
    assert plan_pods("Deployment", "w", 2, pods).delete == ("unbound", "unready")
    assert plan_pods("Deployment", "w", 1, pods).delete == ("unbound", "unready", "new")
    assert plan_pods("Deployment", "w", 0, [pod("gone", deleting=True)]).delete == ()


def test_a_stateful_set_loses_the_ordinals_above_its_replicas():
    pods = [pod(name, name=name) for name in ("w-0", "w-1", "w-2")]
    assert plan_pods("StatefulSet", "w", 1, pods).delete == ("w-1", "w-2")


def ordinal(number, **fields):
    return pod(f"u{number}", name=f"w-{number}", **{"ready": True, **fields})


@pytest.mark.parametrize(
    ("pods", "create"),
    [
        ([], ("w-0",)),
        ([ordinal(0)], ("w-1",)),
        ([ordinal(0, ready=False)], ()),
        ([ordinal(0), ordinal(2)], ("w-1",)),
        ([ordinal(1)], ("w-0",)),
        ([ordinal(0, deleting=True)], ()),
        ([ordinal(0), ordinal(1, deleting=True)], ()),
        ([ordinal(0), ordinal(1), ordinal(2)], ()),
    ],
)
def test_an_ordered_stateful_set_makes_one_pod_at_a_time_each_after_those_before_it_are_ready(pods, create):
    plan = plan_pods("StatefulSet", "w", 3, pods, ordered=True)
    assert (plan.create, plan.delete) == (create, ())


@pytest.mark.parametrize(
    ("pods", "delete"),
    [
        ([ordinal(0), ordinal(1), ordinal(2)], ("u2",)),
        ([ordinal(0), ordinal(1), ordinal(2, ready=False)], ("u2",)),
        ([ordinal(0), ordinal(1), ordinal(2, deleting=True)], ()),
        ([ordinal(0, ready=False), ordinal(1)], ()),
        ([ordinal(0), *(ordinal(number) for number in range(1, 11))], ("u10",)),
    ],
)
def test_an_ordered_stateful_set_loses_its_highest_pod_alone_while_all_it_keeps_are_ready(pods, delete):
    plan = plan_pods("StatefulSet", "w", 1, pods, ordered=True)
    assert (plan.create, plan.delete) == ((), delete)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_what_is_as_wanted_is_left_alone(kind):
    plan = plan_pods(kind, "w", 1, [pod("a", name="w-0")])
    assert (plan.create, plan.delete) == ((), ())
