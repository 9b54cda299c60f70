"""Judges what was said on the bus. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from typing import Any, NamedTuple

from kvberth.scenario import durations
from kvberth.scenario.facts import Facts, Heard, Verdict
from kvberth.scenario.format.events import Comparison, EventMatch, EventSeen, InOrder
from kvberth.scenario.format.lives import StartOrder

_SHOWN = 5
_MISSING = object()


def seen(expected: EventSeen, facts: Facts) -> Verdict:
    """So many matching messages."""
    found = [heard for heard in since(facts, expected.since) if matches(expected, heard)]
    mark = facts.marks[expected.since].at if expected.since else None
    found, late = timely(found, mark, expected.by)
    shown = "; ".join(map(str, found[-_SHOWN:]))
    told = f"{len(found)} of them" + (f": {shown}" if shown else "")
    return Verdict(expected.count.allows(len(found)), told + late)


def timely(found: list[Heard], mark: datetime | None, by: str | None) -> tuple[list[Heard], str]:
    """Give those said in time after a mark, by their own times; and in words how late the first other one was."""
    if mark is None or by is None:
        return found, ""
    within_s = durations.parse(by, {})
    ages = [(one, (one.time - mark).total_seconds()) for one in found]
    right = [one for one, age_s in ages if 0 <= age_s <= within_s]  # what was heard late may be older than the mark
    late = next((age_s for _, age_s in ages if age_s > within_s), None)
    return right, f" (one came {late:.3f} s after the mark)" if late is not None else ""


def in_order(expected: InOrder, facts: Facts) -> Verdict:
    """Each after the one before; others may stand between."""
    found: list[Heard] = []
    rest = _by_time(since(facts, expected.since))
    for match in expected.events:
        heard = next((heard for heard in rest if matches(match, heard)), None)
        if heard is None:
            after = f"after {found[-1]}" if found else "at all"
            return Verdict(False, f"no {match} {after}")
        found.append(heard)
    took_s = (found[-1].time - found[0].time).total_seconds()
    in_time = expected.by is None or took_s <= durations.parse(expected.by, {})
    return Verdict(in_time, "; ".join(map(str, found)) + ("" if in_time else f"; that took {took_s:.3f} s"))


def _by_time(said: Sequence[Heard]) -> Iterator[Heard]:
    """Merge the streams, which arrive independently; within a stream its own order counts, late messages included."""
    streams = {heard.stream for heard in said}
    return merge(*([one for one in said if one.stream == stream] for stream in streams), key=lambda one: one.time)


def start_order(expected: StartOrder, facts: Facts) -> Verdict:
    """The last word about the cache's socket before each engine's start is that it answered."""
    starts = [*_starts(since(facts, expected.since), expected), *_begun(facts, expected)]
    if not starts:
        return Verdict(False, f"no engine of {expected.workload} was started")
    sockets = [h for h in facts.heard if h.type.startswith("socket.") and h.name == expected.kvcache]
    sockets = [h for h in sockets if h.namespace == expected.namespace]
    for start in starts:
        here = [h for h in sockets if h.node == start.node]
        before = [h for h in here if h.time <= start.at]
        if not before or before[-1].type != "socket.ready":
            later = next((h for h in here if h.type == "socket.ready" and h.time > start.at), None)
            late = f"its cache answered {(later.time - start.at).total_seconds():.3f} s later" if later else ""
            return Verdict(False, f"{start}; {late or 'no cache answered'}")
    return Verdict(True, f"{len(starts)} engines started, each after its cache answered")


class _Start(NamedTuple):
    """The start of an engine's process."""

    name: str
    node: str | None
    at: datetime

    def __str__(self) -> str:
        return f"engine {self.name} started on {self.node} at {self.at:%H:%M:%S.%f}"


def _begun(facts: Facts, expected: StartOrder) -> Iterator[_Start]:
    """Give the starts of the engines that run, where no runner says them and the kernel was asked."""
    earliest = facts.marks[expected.since].at if expected.since else None
    for life in facts.lives:
        ours = life.role == "engine" and life.workload == expected.workload and life.namespace == expected.namespace
        if ours and life.began is not None and (earliest is None or life.began >= earliest):
            yield _Start(life.name, life.node, life.began)


def _starts(said: Iterable[Heard], expected: StartOrder) -> list[_Start]:
    """Give the start of every life of the workload's engines that their runners said."""
    first: dict[object, Heard] = {}
    for heard in said:
        body = heard.body
        ours = heard.type == "process.started" and body.get("role") == "engine" and not body.get("at_gate")
        if ours and heard.namespace == expected.namespace and is_workload(body.get("workload"), expected.workload):
            first.setdefault((heard.node, body.get("pid"), body.get("started")), heard)
    return [
        _Start(str(heard.body.get("name")), heard.node, datetime.fromisoformat(str(heard.body["started"])))
        for heard in first.values()
    ]


def is_workload(told: object, name: str) -> bool:
    """Whether ``Kind/name`` is that workload."""
    return str(told or "").partition("/")[2] == name


def since(facts: Facts, mark: str | None) -> Sequence[Heard]:
    """Give what was said after a mark, or since the window began."""
    return facts.heard[facts.marks[mark].heard if mark else facts.begun :]


def matches(match: EventMatch, heard: Heard) -> bool:
    """Whether a message is one of those that are meant."""
    return (
        (match.type is None or match.type == heard.type)
        and (match.node is None or match.node in {heard.node, heard.body.get("node")})
        and (match.namespace is None or match.namespace == heard.namespace)
        and (match.name is None or match.name == heard.name)
        and (match.subject is None or on_subject(match.subject, heard.subject))
        and all(any(fits(rule, value) for value in values(heard.body, path)) for path, rule in match.fields.items())
    )


def on_subject(pattern: str, subject: str) -> bool:
    """Whether a subject is one of a NATS pattern's."""
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1] if len(given) >= len(wanted) else []
        if not given:
            return not wanted
    return len(wanted) == len(given) and all(w in {"*", g} for w, g in zip(wanted, given, strict=True))


def values(body: object, path: str) -> list[Any]:
    """Give the values at a dotted path (one or more where it has ``*``, a single `_MISSING` where there is none)."""
    found: list[Any] = [body]
    for part in path.split("."):
        found = [inner for value in found for inner in _inner(value, part)]
    return found or [_MISSING]


def _inner(value: object, part: str) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values()) if part == "*" else [value[part]] if part in value else []
    if isinstance(value, Sequence) and not isinstance(value, str):
        if part == "*":
            return list(value)
        return [value[int(part)]] if part.isdecimal() and int(part) < len(value) else []
    return []


def fits(rule: object, value: object) -> bool:
    """Whether a value obeys a rule: equality, or a comparison."""
    if not (isinstance(rule, dict) and len(rule) == 1 and next(iter(rule)) in Comparison.model_fields):
        return value is not _MISSING and value == rule
    compare = Comparison.model_validate(rule)
    if compare.kind == "differs":
        return bool(value != compare.differs)
    if value is _MISSING:
        return False
    if compare.kind == "matches":
        return re.search(str(compare.matches), str(value)) is not None
    if not isinstance(value, int | float):
        return False
    return value >= compare.value if compare.kind == "at_least" else bool(value <= compare.value)
