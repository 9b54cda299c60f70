"""Placement's plan depends on last states only: never on order, doubling or lateness of events."""

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kvberth.placement.memory import Memory
from kvberth.placement.observe import Index
from kvberth.placement.plan import Policy, plan
from kvberth_schemas import subjects
from kvberth_schemas.events import PodReadyV1, PodScheduledV1
from support.placement_world import NAMESPACE, World, told

NODES = ("a", "b", "c")
MODELS = ("llama", "qwen")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A world of last states, whatever they are."""
    world = World()
    for node in draw(st.lists(st.sampled_from(NODES), unique=True, min_size=2)):
        world.node(node, free=draw(st.sampled_from([30, 100, 500])), ready=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 3:
        world.node_gone(draw(st.sampled_from(NODES)))
    for model in MODELS:
        _kvcache(draw, world, model)
    for number in range(draw(st.integers(1, 6))):
        _engine(draw, world, f"u{number}")
    for node in NODES:
        for name in MODELS:
            _cache(draw, world, node, name)
    world.answer(draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    world.later(draw(st.sampled_from([0, 400])))
    return world


def _kvcache(draw: st.DrawFn, world: World, model: str) -> None:
    life = draw(
        st.sampled_from(
            ["live", "live", "live", "live", "live", "live", "off", "paused", "broken", "gone", "lost", "never"]
        )
    )
    if life in {"gone", "lost"}:
        world.kvcache_gone(model, by_user=life == "gone")
    elif life != "never":
        options = {"replicas": 0} if life == "off" else {"memory": "banana"} if life == "broken" else {}
        world.kvcache(model, workload=model, paused=life == "paused", age=draw(st.integers(0, 1)), **options)


def _engine(draw: st.DrawFn, world: World, uid: str) -> None:
    model, node = draw(st.sampled_from(MODELS)), draw(st.sampled_from((*NODES, None)))
    if draw(st.booleans()) or node is None:
        world.engine(uid, node, model=model, deleting=draw(st.booleans()))
    else:
        world.engine_gone(uid, node, model=model)
    if node is not None and draw(st.booleans()):
        world.engine_process(uid, node, model=model)


def _cache(draw: st.DrawFn, world: World, node: str, name: str) -> None:
    state = draw(st.sampled_from(["none", "none", "runs", "ended"]))
    if state == "runs":
        world.cache_runs(node, name, answers=draw(st.booleans()))
    elif state == "ended":
        world.cache_ended(node, name, dropped=draw(st.booleans()))


@settings(max_examples=200, deadline=None)
@given(world=worlds(), data=st.data())
def test_every_order_of_the_same_last_states_gives_the_same_plan(world, data):
    order = data.draw(st.permutations(list(world.states)))
    event("in another order" if order != list(world.states) else "in the same order")
    first = plan(world.snapshot(), Policy(), world.now)
    second = plan(world.snapshot(order), Policy(), world.now)
    assert first == second
    event(f"steps: {min(len(first.steps), 3)}")


@settings(max_examples=150, deadline=None)
@given(world=worlds(), data=st.data())
def test_late_and_doubled_events_change_nothing(world, data):
    history = _with_history(world)
    delivered = list(history)
    for item in data.draw(st.lists(st.sampled_from(history), max_size=8)) if history else []:
        delivered.append(item)
        event("doubled")
    delivered = data.draw(st.permutations(delivered))
    index = Index()
    newest: dict[object, int] = {}
    for subject, message, cause in delivered:
        if newest.get(subject, -1) > cause.sequence:
            event("late")
        newest[subject] = max(newest.get(subject, -1), cause.sequence)
        index.take(subject, message, cause)
    late = index.snapshot(
        NAMESPACE,
        term=1,
        freshness=world.freshness(),
        memory=Memory(),
        live=world.live,
        steady_s=world.steady_s,
    )
    assert plan(late, Policy(), world.now) == plan(world.snapshot(), Policy(), world.now)


def _with_history(world: World) -> list[tuple[object, object, object]]:
    """Every last state, after an earlier one of the same subject that says something else."""
    history = []
    for number, (subject, (message, cause)) in enumerate(list(world.states.items())):
        history.append((subject, message, cause))
        if isinstance(message, PodScheduledV1 | PodReadyV1):
            elsewhere = message.model_copy(update={"node": "b" if message.node == "a" else "a", "deleting": False})
            history.append((subject, elsewhere, replace(cause, id=f"old-{number}", traceparent=None, sequence=0)))
    return history


@settings(max_examples=200, deadline=None)
@given(world=worlds())
def test_a_plan_that_was_taken_leaves_nothing_to_do(world):
    result = world.act()
    event(f"steps: {min(len(result.steps), 3)}")
    again = world.act()
    # What was told to stop may have ended already, by the same words: that is cleaned up in the next round.
    assert [step for step in told(again) if not step.startswith("finish")] == []
    assert told(world.act()) == []


@settings(max_examples=200, deadline=None)
@given(world=worlds())
def test_while_the_scheduler_is_silent_there_are_no_steps_and_no_questions(world):
    world.stale = "the scheduler is silent"
    result = world.act()
    assert (result.steps, result.questions) == ((), frozenset())
    assert all(item.nodes is not None for item in result.statuses)


@settings(max_examples=300, deadline=None)
@given(world=worlds())
def test_no_cache_is_removed_beside_a_living_engine_unless_the_user_turned_it_off(world):
    world.act()
    _wake_all(world)
    result = world.act()
    for step in result.steps:
        if step.__class__.__name__ != "Remove" or step.reason in {"Deleted", "TurnedOff"}:
            continue
        event("removed")
        users = [
            message
            for message, _ in world.states.values()
            if getattr(message, "node", None) == step.node
            and getattr(message, "model", None) == step.kvcache
            and message.__class__.__name__ in {"PodScheduledV1", "PodReadyV1", "ProcessStartedV1"}
        ]
        assert users == []


def _wake_all(world: World) -> None:
    """Let time and answers allow as many removals as they can."""
    world.later(1000)
    world.answer(0, 0)


@settings(max_examples=200, deadline=None)
@given(
    engines=st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(MODELS)), max_size=6),
    data=st.data(),
)
def test_exactly_the_nodes_with_engines_end_up_with_caches(engines, data):
    world = World()
    for node in NODES:
        world.node(node)
    for model in MODELS:
        world.kvcache(model, workload=model)
    for node in NODES:
        for name in data.draw(st.lists(st.sampled_from(MODELS), unique=True)):
            world.cache_runs(node, name)
    for number, (node, model) in enumerate(engines):
        world.engine(f"u{number}", node, model=model)
    world.answer(len(engines), len(engines))
    world.act()
    world.later(400)
    world.act()
    running = {(name, node) for (_, name, node), wanted in world.wanted.items() if wanted.run}
    assert running == {(model, node) for node, model in engines}
    stopped = {(name, node) for (_, name, node), wanted in world.wanted.items() if not wanted.run}
    present = {
        (subject.object.rpartition("=")[0], subject.node)
        for subject in world.states
        if subject.entity is subjects.Entity.PROCESS
    }
    assert stopped == present - running


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_what_is_remembered_of_caches_at_rest_changes_no_plan(data):
    world = World()
    for node in NODES:
        world.node(node)
    for model in MODELS:
        world.kvcache(model, workload=model)
    for number in range(data.draw(st.integers(1, 6))):
        world.engine(f"u{number}", data.draw(st.sampled_from(NODES)), model=data.draw(st.sampled_from(MODELS)))
    world.act()
    for (namespace, name, node), wanted in list(world.wanted.items()):
        if wanted.run and data.draw(st.integers(0, 4), label=f"{namespace}/{name} answers on {node}"):
            world.cache_runs(node, name)
    index = world.index()
    first = plan(world.snapshot_of(index), Policy(), world.now)
    event(f"at rest: {min(sum(len(item.rows) for item in first.at_rest.values()), 3)}")
    world.at_rest = first.at_rest
    for number in range(data.draw(st.integers(0, 3))):
        _change(data, world, f"u{number}", data.draw(st.sampled_from(NODES)))
    for subject, (message, cause) in world.states.items():
        index.take(subject, message, cause)
    remembering = plan(world.snapshot_of(index), Policy(), world.now)
    world.at_rest = {}
    assert plan(world.snapshot_of(index), Policy(), world.now) == remembering


def _change(data: st.DataObject, world: World, uid: str, node: str) -> None:
    what = data.draw(st.sampled_from(["lost", "moved", "ending", "node", "silent", "spec", "more"]))
    event(f"then: {what}")
    if what == "lost":
        world.socket_lost(node, data.draw(st.sampled_from(MODELS)))
    elif what in {"moved", "ending"}:
        world.engine(uid, node, model=data.draw(st.sampled_from(MODELS)), deleting=what == "ending")
    elif what == "node":
        world.node(node, ready=data.draw(st.booleans()))
    elif what == "silent":
        world.silent_agents.add(node)
    elif what == "spec":
        world.kvcache(data.draw(st.sampled_from(MODELS)), workload=data.draw(st.sampled_from(MODELS)))
    else:
        world.engine(f"more-{uid}", node, model=data.draw(st.sampled_from(MODELS)), mounts=["llama"])
