"""Decides what to say of a cache's health after one more look at it. Pure: no clock, no I/O.

A proof counts at once, and so does proof of the contrary. A missed deadline needs a second one, and whether the daemon
answered anything meanwhile tells a busy one from one that hangs. What is no evidence changes nothing, until there was
none for so long that nobody knows.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kvberth_schemas.events import CacheHealthV1, HealthReason, Verdict

SLOW_CALL_S = 0.08
"""A daemon is slow when its typical call takes this long; a healthy one's takes a hundredth."""
KNOWN_FOR = timedelta(seconds=5)
"""How long a verdict stands without evidence."""
RENEW_EVERY = timedelta(seconds=30)
"""How old the time of the last proof may be on the bus while proofs go on."""
_ENDED = frozenset({HealthReason.MISSING, HealthReason.STALE, HealthReason.GONE})
"""What shows that the daemon that was there is not there any more; one that refuses is (who is dead is `STALE`)."""
_THERE = frozenset({Verdict.HEALTHY, Verdict.DEGRADED})
"""What is said of who answers."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Whose health it is; ``path`` is the socket's."""

    node: str
    namespace: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Proven:
    """Bytes went in and came back.

    ``call_s``: what a call certainly took, typically, on the slower of the two connections; ``seen_s``: what it may
    have taken, the delay of our own loop included.
    """

    incarnation: str
    round_trip_s: float
    call_s: float
    memory_usage: int
    memory_limit: int
    seen_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """Certainly no proof, and why. The words must not change while the reason does not."""

    reason: HealthReason
    message: str
    detail: str = ""
    """What exactly was seen, for the log: it may be another each time."""


@dataclass(frozen=True, slots=True)
class Late:
    """A deadline of ``deadline_s`` seconds was missed. ``answered``: a new connection got its answer all the same."""

    answered: bool
    deadline_s: float


@dataclass(frozen=True, slots=True)
class NoEvidence:
    """This process could not tell, and why; words and detail are as those of `Failed`."""

    why: str
    detail: str = ""


Observation = Proven | Failed | Late | NoEvidence


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known so far."""

    said: CacheHealthV1 | None = None
    proof: datetime | None = None
    """When bytes last came back."""
    evidence: datetime | None = None
    """When anything was last known; before that, when we began to look."""
    living: str | None = None
    """The incarnation that was proven and has not been seen to end since."""
    late: int = 0
    """Deadlines missed in a row, and of those the last in a row in which nothing was answered."""
    unanswered: int = 0
    blind: bool = False
    """Whether the last look was no evidence: the next one is hardly another."""
    blocks: str | None = None
    """What its transfer worker said last: why it does not serve; empty: it does; None: nobody knows."""

    @property
    def doubtful(self) -> bool:
        """Whether one more look decides, and so should come at once."""
        told = self.said.reason if self.said is not None else None
        if self.late == 0 or self.blind or told is HealthReason.HUNG:
            return False
        return self.unanswered == 1 or (self.late == 1 and told is not HealthReason.SLOW)


def judge(cache: Cache, standing: Standing, seen: Observation, now: datetime) -> tuple[Standing, CacheHealthV1 | None]:
    """Give the new standing, and the event to publish where there is something new to say."""
    after = _noted(standing, seen, now)
    verdict = _verdict(cache, standing, after, seen, now)
    if verdict is None or not _is_news(after, verdict, now):
        return after, None
    return replace(after, said=verdict), verdict


def unsaid_end(cache: Cache, standing: Standing, seen: Observation, *, closed: bool) -> Failed | None:
    """Give the end of the daemon that was said to be there, where what was `seen` since is no word of it.

    The next one may answer before anybody looks. ``closed``: the daemon closed the connection that was kept.
    """
    said = standing.said
    if said is None or said.verdict not in _THERE or isinstance(seen, Failed):
        return None
    if isinstance(seen, Proven) and said.incarnation not in {None, seen.incarnation}:
        return Failed(HealthReason.GONE, f"{cache.path}: vineyardd ended, and another one answers already")
    return Failed(HealthReason.GONE, f"{cache.path}: vineyardd closed the connection that was kept") if closed else None


def ended(standing: Standing) -> Standing:
    """Give the standing once the daemon that was proven is known to have ended: what it missed, no other one did."""
    return replace(standing, living=None, late=0, unanswered=0)


def recalled(standing: Standing, earlier: CacheHealthV1, *, lives: bool) -> Standing:
    """Give the standing with an earlier life's last proof; ``lives``: the daemon of then is the one that listens."""
    return replace(standing, proof=earlier.last_proof, living=earlier.incarnation if lives else None)


def _noted(standing: Standing, seen: Observation, now: datetime) -> Standing:
    if isinstance(seen, NoEvidence):
        return replace(standing, evidence=standing.evidence or now, blind=True)
    late = standing.late + 1 if isinstance(seen, Late) else 0
    unanswered = standing.unanswered + 1 if isinstance(seen, Late) and not seen.answered else 0
    proof = now if isinstance(seen, Proven) else standing.proof
    living = standing.living
    if isinstance(seen, Proven):
        living = seen.incarnation
    elif isinstance(seen, Failed) and seen.reason in _ENDED:
        living = None
    return replace(standing, evidence=now, late=late, unanswered=unanswered, proof=proof, living=living, blind=False)


def _verdict(cache: Cache, before: Standing, after: Standing, seen: Observation, now: datetime) -> CacheHealthV1 | None:
    """What stands now; None where it is what stood, whatever that was."""
    match seen:
        case Proven():
            return _proven(cache, after, seen)
        case Failed():
            verdict = Verdict.DEGRADED if seen.reason is HealthReason.FULL else Verdict.FAILED
            return _said(cache, after, verdict, (seen.reason, seen.message))
        case Late() if not seen.answered:
            hung = f"{cache.path}: vineyardd gave no answer within {seen.deadline_s:g} s, twice in a row"
            return _late(cache, after, Verdict.FAILED, (HealthReason.HUNG, hung)) if after.unanswered > 1 else None
        case Late():
            busy = f"{cache.path}: vineyardd answers, but has no {seen.deadline_s:g} s for a byte: it is busy"
            return _late(cache, after, Verdict.DEGRADED, (HealthReason.SLOW, busy)) if after.late > 1 else None
        case NoEvidence():
            if now - (before.evidence or now) < KNOWN_FOR:
                return None
            return _said(cache, after, Verdict.UNKNOWN, (HealthReason.NOT_PROBED, f"{cache.path}: {seen.why}"))


def _proven(cache: Cache, after: Standing, seen: Proven) -> CacheHealthV1:
    was_slow = after.said is not None and after.said.reason == HealthReason.SLOW
    slow = seen.call_s >= SLOW_CALL_S or (was_slow and seen.seen_s >= SLOW_CALL_S)  # between the two nobody knows
    words = (
        (HealthReason.SLOW, f"{cache.path}: bytes went in and came back, but each call takes over {SLOW_CALL_S:g} s")
        if slow
        else (HealthReason.PROVEN, "bytes went in and came back")
    )
    event = _said(cache, after, Verdict.DEGRADED if slow else Verdict.HEALTHY, words)
    return event.model_copy(
        update={
            "incarnation": seen.incarnation,
            "round_trip_s": round(seen.round_trip_s, 6),
            "memory_usage": seen.memory_usage,
            "memory_limit": seen.memory_limit,
        }
    )


def _late(cache: Cache, after: Standing, verdict: Verdict, words: tuple[HealthReason, str]) -> CacheHealthV1:
    """Name the daemon that is late only where it is the one that was proven: another may be starting still."""
    return _said(cache, after, verdict, words).model_copy(update={"incarnation": after.living})


def _said(cache: Cache, after: Standing, verdict: Verdict, words: tuple[HealthReason, str]) -> CacheHealthV1:
    """Put an event together; who proved last and how full it was then stays until the next proof."""
    last = after.said
    return CacheHealthV1(
        cache=cache.name,
        namespace=cache.namespace,
        node=cache.node,
        incarnation=last.incarnation if last else None,
        verdict=verdict,
        reason=words[0].value,
        message=words[1],
        last_proof=after.proof,
        memory_usage=last.memory_usage if last else None,
        memory_limit=last.memory_limit if last else None,
        blocks=after.blocks,
    )


def _is_news(after: Standing, verdict: CacheHealthV1, now: datetime) -> bool:
    said = after.said
    if said is None or _matter(said) != _matter(verdict):
        return True
    if verdict.last_proof is None or verdict.last_proof != now:
        return False
    return said.last_proof is None or _half_minute(said.last_proof) != _half_minute(now)


def _half_minute(at: datetime) -> int:
    """All agents renew at the same moments, so that whoever reads them all has one change for many."""
    return int(at.timestamp() // RENEW_EVERY.total_seconds())


def _matter(event: CacheHealthV1) -> tuple[object, ...]:
    return event.incarnation, event.verdict, event.reason, event.message, event.memory_limit, event.blocks
