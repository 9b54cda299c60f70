"""Judges what the machine shows: processes, sockets, paths, metrics, logs, memory. Pure."""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Final

from kvberth.scenario.durations import parse
from kvberth.scenario.facts import Facts, Life, Place, Sample, Verdict
from kvberth.scenario.format.machine import (
    CliSays,
    LogSays,
    MemoryIs,
    MetricIs,
    PathIs,
    ProcessIs,
    ReadyIs,
    SocketIs,
)
from kvberth.scenario.judge.lives import resolve
from kvberth_schemas.quantity import format_bytes, parse_bytes

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LAST_LINES = 3


def process(expected: ProcessIs, facts: Facts) -> Verdict:
    """Running processes of a role."""
    found = [life for life in facts.lives if _is(expected, life)]
    shown = ", ".join(map(str, found))
    return Verdict(expected.count.allows(len(found)), f"{len(found)}" + (f": {shown}" if shown else ""))


def socket(expected: SocketIs, facts: Facts) -> Verdict:
    """What a register request at the socket led to."""
    answer = facts.answers[Place(expected.node, expected.namespace, expected.kvcache)]
    return Verdict(answer.state == expected.state, f"{answer.state}" + (f" ({answer.detail})" if answer.detail else ""))


def path(expected: PathIs, facts: Facts) -> Verdict:
    """What lies at a path."""
    found = facts.paths[expected.node, expected.path]
    states = {found.state} | ({"present"} if found.state != "missing" else set())
    states |= {"empty"} if found.state == "directory" and found.empty else set()
    right_mode = expected.mode is None or int(expected.mode, 8) == found.mode
    empty = ", empty" if found.empty else ""
    mode = f", mode {found.mode:04o}" if found.state != "missing" else ""
    return Verdict(expected.state in states and right_mode, f"{found.state}{empty}{mode}")


def metric(expected: MetricIs, facts: Facts) -> Verdict:
    """A metric's value, or its growth."""
    samples = facts.metrics[str(expected.of)]
    if isinstance(samples, str):
        return Verdict(None, samples)
    value = _sum(expected, samples)
    before = facts.marks[expected.since].metrics.get(str(expected.of), ()) if expected.since else ()
    value -= _sum(expected, before)
    names = sorted({sample.name for sample in samples})
    hint = "" if expected.name in names else f" (no such series; there are {', '.join(_alike(expected.name, names))})"
    return Verdict(_OPERATORS[expected.op](value, expected.value), f"{value:g}{hint}")


def ready(expected: ReadyIs, facts: Facts) -> Verdict:
    """What a service says of itself."""
    found = facts.readiness[str(expected.of)]
    if isinstance(found, str):
        return Verdict(None, found)
    shown = f"{'ready' if found.ready else 'not ready'}" + (f": {found.text.strip()}" if found.text else "")
    if expected.says is None:
        return Verdict(found.ready is expected.value, shown)
    if found.text is None:
        return Verdict(None, f"{shown}; what it answers is not known here")
    return Verdict(found.ready is expected.value and re.search(expected.says, found.text) is not None, shown)


def log(expected: LogSays, facts: Facts) -> Verdict:
    """Lines of a log."""
    lines = facts.logs[str(expected.of)]
    if isinstance(lines, str):
        return Verdict(None, lines)
    start = facts.marks[expected.since].logs.get(str(expected.of), 0) if expected.since else 0
    found = [line for line in lines[start:] if re.search(expected.line, line)]
    last = "; ".join((found or lines[start:])[-_LAST_LINES:])
    return Verdict(expected.count.allows(len(found)), f"{len(found)}; the last lines: {last}")


def cli(expected: CliSays, facts: Facts) -> Verdict:
    """What `kvberth status` printed: the last one of this step, or any after a mark."""
    runs = [run for run in facts.printed if facts.step_began is None or run.began >= facts.step_began][-1:]
    if expected.since:
        mark = facts.marks[expected.since].at
        runs = [run for run in facts.printed if run.began >= mark]
        if expected.by:
            runs = [run for run in runs if (run.began - mark).total_seconds() <= parse(expected.by, {})]
    if not runs:
        return Verdict(None, "no 'kvberth status' that was given since then has ended yet")
    found = any(re.search(expected.line, line) for run in runs for line in run.text.splitlines())
    return Verdict(found, f"the last of {len(runs)} printed: {runs[-1].text}")


def memory(expected: MemoryIs, facts: Facts) -> Verdict:
    """Resident memory now, and against a mark."""
    found = resolve(expected.of, facts.lives)
    if not found:
        return Verdict(False, f"{expected.of} does not run")
    now = sum(life.rss_bytes for life in found)
    holds, shown = True, format_bytes(now)
    if expected.at_most:
        holds = now <= parse_bytes(expected.at_most)
    if expected.grown_at_most and expected.since:
        before = sum(life.rss_bytes for life in resolve(expected.of, facts.marks[expected.since].lives))
        holds = holds and now - before <= parse_bytes(expected.grown_at_most)
        shown += f", at '{expected.since}' {format_bytes(before)}"
    return Verdict(holds, shown)


def _is(expected: ProcessIs, life: Life) -> bool:
    right = life.role == expected.role and expected.node in {None, life.node}
    if expected.kvcache is not None:
        right = right and life.owner == expected.kvcache
    if expected.workload is not None:
        right = right and life.workload == expected.workload
    return right


def _sum(expected: MetricIs, samples: Sequence[Sample]) -> float:
    return sum(
        sample.value
        for sample in samples
        if sample.name == expected.name and expected.labels.items() <= dict(sample.labels).items()
    )


def _alike(name: str, names: Sequence[str]) -> list[str]:
    stem = name.split("_")[:2]
    return [other for other in names if other.split("_")[:2] == stem] or list(names[:10])
