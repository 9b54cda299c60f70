"""Tells how long a move took and in which stage, from what was said on the bus and what the witness saw. Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import PodScheduledV1, ProcessRole, ProcessStartedV1
from kvberth_schemas.model import Event, Want
from kvberth_schemas.wants import CacheWantV1

STAGES = {
    "bus": "the binding is said and stored",
    "plan": "it is delivered to placement, which decides",
    "want": "the want of the cache is said and stored",
    "runner": "it is delivered to the node's runner, which is about to start the daemon",
    "daemon": "its record is written, it starts, and it answers the witness's register request",
}
"""A move's stages, in order; together they are the whole of it."""


M_co = TypeVar("M_co", bound=Event | Want, covariant=True)


@dataclass(frozen=True, slots=True)
class Heard(Generic[M_co]):
    """One message of the streams."""

    envelope: Envelope
    message: M_co
    stored: datetime
    """When the stream took it, by the server's clock (the same machine's)."""


AnyHeard = Heard[Event | Want]


def binding(heard: Iterable[AnyHeard], uids_before: Set[str]) -> Heard[PodScheduledV1] | None:
    """Give the message that bound an engine whose uid was not known before."""
    for one in heard:
        pod = one.message
        if isinstance(pod, PodScheduledV1) and not pod.deleting and pod.uid not in uids_before:
            return Heard(one.envelope, pod, one.stored)
    return None


def stages(heard: Sequence[AnyHeard], bound: AnyHeard, answered: datetime) -> dict[str, float] | None:
    """Give the seconds of each stage; None while a message of the chain is missing."""
    want = next((one for one in heard if _asks_for_cache(one, bound)), None)
    if want is None:
        return None
    process = next((one.message for one in heard if _starts_cache(one, want)), None)
    if not isinstance(process, ProcessStartedV1):
        return None
    ends = [bound.envelope.time, bound.stored, want.envelope.time, want.stored, process.started, answered]
    return {name: (end - begin).total_seconds() for name, begin, end in zip(STAGES, ends[:-1], ends[1:], strict=True)}


def percentile(values: Iterable[float], percent: float) -> float:
    """Give the smallest value that so many per cent of the values don't exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


def summary(moves: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Give each stage's median and 99th percentile in milliseconds, and its share of all the moves' time."""
    total = sum(sum(move.values()) for move in moves)
    return {
        name: {
            "p50_ms": round(statistics.median(move[name] for move in moves) * 1000, 1),
            "p99_ms": round(percentile((move[name] for move in moves), 99) * 1000, 1),
            "share": round(sum(move[name] for move in moves) / total, 3),
        }
        for name in STAGES
    }


def _asks_for_cache(one: AnyHeard, bound: AnyHeard) -> bool:
    asks = isinstance(one.message, CacheWantV1) and one.message.state == "run"
    return asks and one.envelope.cause == bound.envelope.id


def _starts_cache(one: AnyHeard, want: AnyHeard) -> bool:
    starts = isinstance(one.message, ProcessStartedV1) and one.message.role is ProcessRole.CACHE
    return starts and one.envelope.cause == want.envelope.id
