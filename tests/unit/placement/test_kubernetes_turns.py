"""Many are asked a few at a time, all in turn; one that gives no answer keeps nobody else from being heard."""

import asyncio

import structlog

from kvberth.kube import Eviction, Invalid, Unreachable
from kvberth.placement.apply.kubernetes import draining, reading
from kvberth.placement.apply.kubernetes.turns import Turns
from support.placement_world import World

ALL = [("ns", f"e{number:02}") for number in range(5)]


def test_all_are_asked_in_turn():
    turns = Turns(2)
    asked = []
    for _ in range(5):
        for name in turns.begin(ALL):
            asked.append(name)
            turns.said(name, "waits")
    assert asked == ALL + ALL
    assert turns.answers == dict.fromkeys(ALL, "waits")


def test_fewer_than_a_round_are_asked_once_each_and_nobody_is_no_round():
    turns = Turns(16)
    assert [turns.begin(ALL), turns.begin([])] == [ALL, []]


def test_what_is_not_confirmed_and_who_left_is_dropped():
    turns = Turns(5)
    for name in turns.begin(ALL):
        turns.said(name, "waits")
    for name in turns.begin(ALL[1:]):
        turns.said(name, "" if name == ALL[1] else "waits") if name != ALL[2] else turns.failed(name, "no")
    assert turns.answers == dict.fromkeys(ALL[3:], "waits")


def test_the_same_trouble_is_news_once_and_again_after_an_answer():
    turns = Turns(5)
    turns.begin(ALL)
    assert [turns.failed(ALL[0], "no"), turns.failed(ALL[0], "no"), turns.failed(ALL[0], "oh")] == [True, False, True]
    turns.said(ALL[0], "")
    assert turns.failed(ALL[0], "oh")
    assert [turns.cut_off(ALL[1], "away"), turns.cut_off(ALL[2], "away")] == [True, False]
    turns.ended()
    assert turns.cut_off(ALL[2], "away")


class Budgets:
    """A cluster whose server has an answer, or a refusal, for each engine by name."""

    client = None

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    async def may_evict(self, target):
        self.asked.append(target.name)
        answer = self.answers.get(target.name, Eviction(allowed=True))
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_an_engine_whose_question_is_refused_keeps_nobody_else_from_being_heard(monkeypatch):
    world = World()
    world.node("a", cordoned=True)
    world.kvcache()
    for number in range(20):
        world.engine(f"e{number:02}", "a")
    index = world.index()
    names = [engine.name for _, engine in index.engines_on_cordoned_nodes()]
    refused = Invalid("the webhook of another one says no", status=400)
    held = Eviction(allowed=False, message="The disruption budget llama needs 1 healthy pods")
    cluster = Budgets({names[0]: refused, names[1]: held, names[19]: held})
    monkeypatch.setattr(reading, "budgets", lambda *_: asyncio.sleep(0, {}))
    drains = draining.Drains(cluster, index, lambda: None)
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            await drains._look()
    assert set(cluster.asked) == set(names)
    assert set(drains._turns.answers) == {("default", "e01"), ("default", "e19")}
    assert [line["engine"] for line in told] == [names[0]]
    cluster.answers, cluster.asked = {name: Unreachable("nobody answers") for name in names}, []
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            await drains._look()
    assert (len(cluster.asked), len(told), drains._turns.answers) == (3, 1, {})
