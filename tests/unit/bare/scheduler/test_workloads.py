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
    assert plan_pods("StatefulSet", "w", 3, [pod("a", name="w-1")]).create == ("w-0", "w-2")


def test_a_deployments_replacement_is_made_while_the_old_pod_is_being_deleted():
    assert plan_pods("Deployment", "w", 1, [pod("a", deleting=True)]).create == (None,)


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


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_what_is_as_wanted_is_left_alone(kind):
    plan = plan_pods(kind, "w", 1, [pod("a", name="w-0")])
    assert (plan.create, plan.delete) == ((), ())
