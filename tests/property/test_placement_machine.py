"""A cluster that moves, scales, loses nodes and words: placement converges, with one cache per engine node."""

from collections.abc import Callable

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvberth.placement.steps import Remove
from support.placement_world import World

NODES = ("a", "b", "c", "d")


class Cluster(RuleBasedStateMachine):
    """The truth (engines, nodes, processes), and a `World` that hears of it: at once, late, or only by reconciling."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.engines: dict[str, str] = {}
        self.ending: dict[str, str] = {}
        self.nodes: set[str] = set(NODES)
        self.wanted = 0
        self.on = True
        self.unsaid: dict[tuple[str, str], Callable[[], object]] = {}
        self.births = 0

    @initialize()
    def begin(self) -> None:
        for node in NODES:
            self.world.node(node)
        self.world.kvcache()

    def say(self, data: st.DataObject, *words: tuple[str, str, Callable[[], object]]) -> None:
        """Let the world hear of something now, or not before its writer reconciles (it says newest states only)."""
        for kind, name, word in words:
            if data.draw(st.booleans(), label="lost or late"):
                self.unsaid[kind, name] = word
                event("lost or late")
            else:
                self.unsaid.pop((kind, name), None)
                word()

    # --- what happens -------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    @precondition(lambda self: self.nodes and len(self.engines) < 5)
    def scale_up(self, data: st.DataObject) -> None:
        self.wanted += 1
        self._bind(data)

    @rule(data=st.data())
    @precondition(lambda self: self.engines)
    def scale_down(self, data: st.DataObject) -> None:
        self.wanted -= 1
        self._let_go(data, data.draw(st.sampled_from(sorted(self.engines))))

    @rule(data=st.data())
    @precondition(lambda self: self.engines and self.nodes)
    def move(self, data: st.DataObject) -> None:
        self._let_go(data, data.draw(st.sampled_from(sorted(self.engines))))
        self._bind(data)

    @rule(data=st.data())
    @precondition(lambda self: self.ending)
    def engine_ends(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.ending)))
        node = self.ending.pop(uid)
        self.say(
            data,
            ("process", uid, lambda: self.world.engine_process_ended(uid, node)),
            ("pod", uid, lambda: self.world.engine_gone(uid, node)),
        )

    @rule(data=st.data())
    @precondition(lambda self: len(self.nodes) > 1)
    def node_is_deleted(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.nodes)))
        self.nodes.discard(node)
        event("node lost")
        gone = [uid for uid, place in (self.engines | self.ending).items() if place == node]
        replace = sum(1 for uid in gone if uid in self.engines)
        for uid in gone:
            self.engines.pop(uid, None)
            self.ending.pop(uid, None)
            self.say(data, ("pod", uid, lambda uid=uid: self.world.engine_gone(uid, node)))
        self.say(data, ("node", node, lambda: self.world.node_gone(node)))
        for _ in range(replace):
            self._bind(data)

    @rule(node=st.sampled_from(NODES))
    def node_returns(self, node: str) -> None:
        if node not in self.nodes:
            self.flush()
            self.nodes.add(node)
            self.world.node(node)
            for number in range(self.births + 1):  # its runner finds nothing that ran there
                self.world.engine_process_ended(f"u{number}", node)

    @rule(on=st.booleans())
    def user_turns(self, on: bool) -> None:
        self.on = on
        self.world.kvcache(replicas=1 if on else 0)

    @rule(seconds=st.sampled_from([1, 20, 400]))
    def time_passes(self, seconds: int) -> None:
        self.world.later(seconds)

    @rule()
    def scheduler_falls_silent_for_a_plan(self) -> None:
        self.world.stale = "the scheduler is silent"
        assert self.world.act().steps == ()
        self.world.stale = None

    @rule()
    def writers_reconcile(self) -> None:
        self.flush()

    @rule()
    def placement_plans(self) -> None:
        self.world.answer(self.wanted, len(self.engines))
        result = self.world.act()
        for step in result.steps:
            if isinstance(step, Remove) and self.on:
                living = {**self.engines, **self.ending}
                # Lost words can hide a new engine from us, but never one that we have heard of.
                assert step.node not in {living[uid] for uid in living if self._heard(uid, step.node)}

    # --- what must hold -----------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything is said at last: placement settles, and stays settled."""
        self.flush()
        for uid, node in list(self.ending.items()):
            self.world.engine_process_ended(uid, node)
            self.world.engine_gone(uid, node)
        self.ending.clear()
        self.world.answer(self.wanted, len(self.engines))
        for _ in range(6):
            self._nodes_obey()
            self.world.later(100)
            self.world.act()
        expected = set(self.engines.values()) if self.on else set()
        running = {node for (_, _, node), wanted in self.world.wanted.items() if wanted.run}
        assert running == expected
        assert {node for _, _, node in self.world.wanted} == expected
        assert self.world.act().steps == ()

    # --- parts --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        words, self.unsaid = self.unsaid, {}
        event("reconciled after loss" if words else "nothing was lost")
        for word in words.values():
            word()

    def _heard(self, uid: str, node: str) -> bool:
        return any(
            getattr(message, "uid", getattr(message, "owner", None)) == uid and getattr(message, "node", None) == node
            for message, _ in self.world.states.values()
            if type(message).__name__ in {"PodScheduledV1", "ProcessStartedV1"}
        )

    def _bind(self, data: st.DataObject) -> None:
        self.births += 1
        uid, node = f"u{self.births}", data.draw(st.sampled_from(sorted(self.nodes)))
        self.engines[uid] = node
        self.say(
            data,
            ("pod", uid, lambda: self.world.engine(uid, node)),
            ("process", uid, lambda: self.world.engine_process(uid, node)),
        )

    def _let_go(self, data: st.DataObject, uid: str) -> None:
        node = self.engines.pop(uid)
        self.ending[uid] = node
        self.say(data, ("pod", uid, lambda: self.world.engine(uid, node, deleting=True)))

    def _nodes_obey(self) -> None:
        """Runners and agents do what is wanted, and say so."""
        for (_, name, node), wanted in list(self.world.wanted.items()):
            if node not in self.nodes:
                continue
            if wanted.run:
                self.world.cache_runs(node, name, incarnation=f"i-{node}")
            else:
                self.world.cache_ended(node, name)


Cluster.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestCluster = Cluster.TestCase
