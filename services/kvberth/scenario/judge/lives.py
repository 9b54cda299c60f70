"""Judges who lives: caches that answer, identities, lives in a window. Pure."""

from collections.abc import Iterable

from kvberth.scenario.facts import Answer, Facts, Heard, Life, Place, Verdict
from kvberth.scenario.format.lives import Identity, Lives, Reaches
from kvberth.scenario.format.states import Caches
from kvberth.scenario.format.targets import CacheTarget, EngineTarget, Target, WorkerTarget
from kvberth.scenario.judge.events import is_workload, since

_SERVICES = frozenset({"placement", "scheduler", "runner", "node_agent", "nats", "up"})
Who = tuple[int, str | None, int | None]


def caches(expected: Caches, facts: Facts) -> Verdict:
    """Registers answered, by node."""
    asked = {
        place.node: answer
        for place, answer in facts.answers.items()
        if (place.namespace, place.kvcache) == (expected.namespace, expected.kvcache)
    }
    answering = sorted(node for node, answer in asked.items() if answer.state == "answers")
    others = [f"{node} {answer.state}" for node, answer in sorted(asked.items()) if answer.state not in _SILENCE]
    shown = f"they answer on {', '.join(answering) or 'no node'}" + (f" ({', '.join(others)})" if others else "")
    return Verdict(answering == sorted(expected.nodes), shown)


_SILENCE = frozenset({"answers", "missing"})


def resolve(target: Target, lives: Iterable[Life]) -> list[Life]:
    """Give the running processes that a target means."""
    return [life for life in lives if _means(target, life)]


def same(expected: Identity, facts: Facts) -> Verdict:
    """Nobody was replaced: who lived at the mark lives, and is the same."""
    return _compare(expected, facts, wanted_same=True)


def changed(expected: Identity, facts: Facts) -> Verdict:
    """Everybody was replaced: in each one's place lives another."""
    return _compare(expected, facts, wanted_same=False)


def _compare(expected: Identity, facts: Facts, *, wanted_same: bool) -> Verdict:
    mark = facts.marks[expected.since]
    before = _identities(_chosen(expected, mark.lives), mark.answers)
    now = _identities(_chosen(expected, facts.lives), facts.answers)
    if not before:
        return Verdict(False, f"none of them lived at '{expected.since}'")
    faults = []
    for place in sorted(before.keys() | now.keys(), key=str):
        old, new = before.get(place), now.get(place)
        if wanted_same and not _is_same(old, new) and (old is not None or expected.of is None):
            faults.append(f"{_place(place)} was {_who(old)}, is {_who(new)}")
        if not wanted_same and old is not None and (new is None or new[:2] == old[:2]):
            faults.append(f"{_place(place)} was {_who(old)}, is {_who(new)}")
    return Verdict(not faults, "; ".join(faults) or ", ".join(f"{_place(p)} {_who(w)}" for p, w in now.items()))


def lives(expected: Lives, facts: Facts) -> Verdict:
    """Distinct lives that began in a window: what the runners said, and what the kernel runs."""
    known = facts.marks[expected.since].lives if expected.since else facts.lived
    before = () if expected.since else facts.heard[: facts.begun]  # what a window's own lives are told from
    old = {(life.node, life.pid, life.incarnation) for life in known} | _said_lives(expected, before)
    said = _said_lives(expected, since(facts, expected.since))
    running = {(life.node, life.pid, life.incarnation) for life in facts.lives if _lives_as(expected, life)}
    found = (said | running) - old
    shown = ", ".join(f"pid {pid} on {node}" for node, pid, _ in sorted(found, key=str))
    return Verdict(expected.count.allows(len(found)), f"{len(found)}" + (f": {shown}" if shown else ""))


def reaches(expected: Reaches, facts: Facts) -> Verdict:
    """The daemon behind each engine's own socket path is the KVCache's daemon of the engine's node."""
    engines = [life for life in facts.lives if life.role == "engine" and life.workload == expected.workload]
    engines = [life for life in engines if life.namespace == expected.namespace]
    if not engines:
        return Verdict(False, f"no engine of {expected.workload} runs")
    faults = []
    for engine in engines:
        reached = facts.given.get(engine.socket or "", Answer("missing"))
        place = Place(engine.node or "", expected.namespace, expected.kvcache)
        right = facts.answers.get(place, Answer("missing"))
        if reached.state != "answers" or reached.incarnation != right.incarnation:
            faults.append(
                f"{engine} was given {engine.socket}, which is {_answer(reached)}; "
                f"the daemon of {expected.kvcache} there is {_answer(right)}"
            )
    return Verdict(not faults, "; ".join(faults) or f"{len(engines)} engines reach it")


def _chosen(expected: Identity, found: Iterable[Life]) -> list[Life]:
    if expected.of:
        return [life for life in found if any(_means(target, life) for target in expected.of)]
    left_out = {"gate"} if expected.services else {"gate", *_SERVICES}  # a gate ends when its engine starts
    return [life for life in found if life.role not in left_out]


def _identities(found: Iterable[Life], answers: object) -> dict[tuple[str, str | None, str | None, str], Who]:
    asked = answers if isinstance(answers, dict) else dict(answers)  # type: ignore[call-overload]
    result: dict[tuple[str, str | None, str | None, str], Who] = {}
    for life in found:
        answer = asked.get(Place(life.node or "", life.namespace or "", life.owner)) if life.role == "cache" else None
        result[life.place] = (life.pid, life.incarnation, answer.instance_id if answer else None)
    return result


def _means(target: Target, life: Life) -> bool:
    value = target.value
    if isinstance(value, CacheTarget):
        right = (life.role, life.namespace, life.owner) == ("cache", value.namespace, value.kvcache)
        return right and value.node in {None, life.node}
    if isinstance(value, WorkerTarget):
        right = (life.role, life.namespace, life.owner) == ("transfer", value.namespace, value.kvcache)
        return right and value.node in {None, life.node}
    if isinstance(value, EngineTarget):
        right = (life.role, life.namespace, life.workload) == ("engine", value.namespace, value.workload)
        right = right and value.node in {None, life.node} and value.pod in {None, life.name}
        return right and value.deleting in {None, life.deleting}
    if target.kind == "service":
        return life.role == value.name and value.node in {None, life.node}
    return life.role == target.kind


def _said_lives(expected: Lives, heard: Iterable[Heard]) -> set[tuple[object, object, object]]:
    return {
        (one.node, one.body.get("pid"), one.body.get("incarnation"))
        for one in heard
        if one.type == "process.started" and _said_of(expected, one.body, one.node)
    }


def _lives_as(expected: Lives, life: Life) -> bool:
    if expected.cache or expected.engine:
        target = Target(cache=expected.cache) if expected.cache else Target(engine=expected.engine)
        return _means(target, life)
    return life.role == "cache"


def _said_of(expected: Lives, body: object, node: str | None) -> bool:
    said = body if isinstance(body, dict) else {}
    if said.get("at_gate"):  # what runs then is no engine yet
        return False
    if expected.engine:
        one = expected.engine
        right = said.get("role") == "engine" and is_workload(said.get("workload"), one.workload)
        right = right and one.pod in {None, said.get("name")} and one.node in {None, node}
        return right and said.get("namespace") == one.namespace
    if said.get("role") != "cache":
        return False
    if expected.cache is None:
        return True
    cache = expected.cache
    right = (said.get("namespace"), said.get("owner")) == (cache.namespace, cache.kvcache)
    return right and cache.node in {None, node}


def _is_same(old: Who | None, new: Who | None) -> bool:
    """Compare pid and incarnation, and the instance where both answered: a slow answer is no other process."""
    if old is None or new is None:
        return old is new
    return old[:2] == new[:2] and (None in {old[2], new[2]} or old[2] == new[2])


def _place(place: tuple[str, str | None, str | None, str]) -> str:
    role, node, _, owner = place
    return " ".join(filter(None, (role, owner, f"on {node}" if node else "")))


def _who(who: Who | None) -> str:
    if who is None:
        return "not there"
    pid, incarnation, instance = who
    words = [f"pid {pid}"] + ([f"incarnation {incarnation[:8]}"] if incarnation else [])
    return ", ".join(words + ([f"instance {instance}"] if instance is not None else []))


def _answer(answer: Answer) -> str:
    return f"incarnation {(answer.incarnation or '')[:8]}" if answer.state == "answers" else answer.state
