"""What the scheduler counts of its work."""

from kvberth.bare.scheduler.commands import register
from kvberth.bare.scheduler.metrics import SchedulerMetrics, bindings, waiting
from kvberth.bare.scheduler.results import accepted, refused
from kvberth.bare.scheduler.state import State
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth.service import Telemetry
from kvberth_schemas.subjects import Verb


def test_bindings_and_waiting_replicas_are_counted_from_states(make, build, moment):
    unbound = turn(build(make.engine()), Seen(), Limits(), moment).state
    assert waiting(unbound) == 1
    bound = turn(register(unbound, make.node("l20-a"))[0], Seen(), Limits(), moment).state
    assert (bindings(unbound, bound), waiting(bound)) == (1, 0)
    assert bindings(bound, bound) == 0
    (pod,) = bound.pods.values()
    assert bindings(State(), State().put(pod.model_copy(update={"adopted": True}))) == 0


def test_what_is_counted_is_scraped(make, build, moment):
    telemetry = Telemetry("scheduler")
    metrics = SchedulerMetrics(telemetry)
    state = turn(build(make.engine()), Seen(), Limits(), moment).state
    metrics.observe(lambda: state, lambda: 2)
    metrics.count_bindings(state, turn(register(state, make.node("l20-a"))[0], Seen(), Limits(), moment).state)
    metrics.count_refusals(
        Verb.APPLY, [accepted("A", None, "a"), refused("B", None, "b", "no"), refused("C", None, "c", "no")]
    )
    metrics.count_refusals(Verb.SCALE, [accepted("A", None, "a")])
    lines = telemetry.metrics_text().decode().splitlines()
    telemetry.shutdown()
    assert "kvberth_scheduler_bindings_total 1.0" in lines
    assert 'kvberth_scheduler_refused_requests_total{verb="apply"} 1.0' in lines
    assert not [line for line in lines if 'verb="scale"' in line]
    assert "kvberth_scheduler_waiting_replicas 1.0" in lines
    assert "kvberth_scheduler_not_ready_nodes 2.0" in lines
