"""What the publisher remembers and how it goes on when one thing can't be said; the writers only listen."""

import asyncio
import itertools
from datetime import timedelta

from kvberth.bare.scheduler.commands import register
from kvberth.bare.scheduler.lifecycle import Evidence
from kvberth.bare.scheduler.publish import PURGE_AGAIN_S, Publisher
from kvberth.bare.scheduler.turn import Limits, Seen, turn
from kvberth.bus import BodyTooLong
from kvberth_schemas import subjects
from kvberth_schemas.events import ProcessEndedV1


class Voice:
    """Takes what a `Writer` would be given; refuses the subjects in `too_long`."""

    deposed = False

    def __init__(self):
        self.said, self.purged, self.too_long = {}, [], set()
        self.heard = asyncio.Event()

    def put(self, subject, message, **_):
        if subject in self.too_long:
            raise BodyTooLong(f"{subject} has too many bytes")
        self.said[subject] = message
        return "id"

    def forget(self, subject):
        self.said.pop(subject, None)

    async def purge(self, subject):
        self.purged.append(subject)
        self.heard.set()


def publisher(clock=lambda: 0.0):
    facts, wants, versions = Voice(), Voice(), itertools.count(1)
    return Publisher(facts, wants, 1, lambda: next(versions), clock), facts, wants


def test_one_thing_that_is_too_long_holds_up_nothing_else_and_is_a_fault_until_it_is_said(make, build, moment):
    state = build(make.node("l20-a"), make.engine(), make.kvcache())
    state = turn(state, Seen(), Limits(), moment).state
    made, facts, wants = publisher()
    facts.too_long = {subjects.node("l20-a"), subjects.spec("default", "llama-kv")}
    made.publish(state, Seen(), Limits(), {})
    assert len(facts.said) == len(wants.said) == 1
    assert "is stored but can't be said on the bus" in made.fault
    facts.too_long = set()
    (manifest,) = (one for one in state.manifests.values() if one.kind == "KVCache")
    changed = state.put(manifest.model_copy(update={"generation": 2}))
    changed, _ = register(changed, make.node("l20-a", gpus=2))
    made.publish(changed, Seen(), Limits(), {})
    assert made.fault is None
    assert len(facts.said) == 3


async def test_the_want_of_an_ended_pod_is_purged_once_and_remembered_no_longer_than_the_pod(make, build, moment):
    state = turn(build(make.node("l20-a"), make.engine()), Seen(), Limits(), moment).state
    (pod,) = state.pods.values()
    long_ago = make.NOW - timedelta(hours=13)
    ended = state.put(pod.model_copy(update={"deleting": True, "gone": long_ago, "ended": True}))
    made, _, wants = publisher()
    for _ in range(3):
        ended = ended.put(ended.pods[pod.uid].model_copy(update={"resource_version": 1}))
        made.publish(ended, Seen(), Limits(), {})
    purging = asyncio.create_task(made.purge())
    async with asyncio.timeout(5.0):
        await wants.heard.wait()
    purging.cancel()
    await asyncio.gather(purging, return_exceptions=True)
    assert len(wants.purged) == 1
    assert list(made._purged) == [pod.uid]
    made.publish(turn(ended, Seen(), Limits(), moment).state, Seen(), Limits(), {})
    assert made._purged == {}


def test_a_purged_want_that_a_runner_still_answers_to_is_purged_again_after_a_while(make, build, moment):
    state = turn(build(make.node("l20-a"), make.engine()), Seen(), Limits(), moment).state
    (pod,) = state.pods.values()
    over = state.put(pod.model_copy(update={"deleting": True, "gone": make.NOW, "ended": True}))
    event = ProcessEndedV1(node="l20-a", namespace="default", owner=pod.uid, name=pod.name, role="engine")
    now = [0.0]
    made, _, _ = publisher(lambda: now[0])
    counts = []
    for now[0] in (0.0, PURGE_AGAIN_S, PURGE_AGAIN_S + 1, PURGE_AGAIN_S + 2):
        made.publish(over, Seen((Evidence("e", event),)), Limits(), {})
        counts.append(made._to_purge.qsize())
    assert counts == [1, 1, 2, 2]
    made.publish(over, Seen(), Limits(), {})
    assert made._to_purge.qsize() == 2
