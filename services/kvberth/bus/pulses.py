"""Who said when that he is alive and complete, and about which stream. Pure: times are parameters.

A pair (service, node) is fresh while any instance of it said so, within `FRESH_FOR_S`, of the stream that we read too.
"""

from datetime import datetime

from kvberth_schemas.alive import FRESH_FOR_S, Alive
from kvberth_schemas.subjects import AliveSubject, Service

Pair = tuple[Service, str | None]

_FORGET_S = 3600.0


class Pulses:
    """The last signs of life of every pair, by the reader's monotonic clock."""

    def __init__(self, fresh_for_s: float = FRESH_FOR_S) -> None:
        """Nobody was heard."""
        self._fresh_for_s = fresh_for_s
        self._heard: dict[Pair, float] = {}
        self._complete: dict[tuple[Pair, datetime], float] = {}

    def hear(self, subject: AliveSubject, alive: Alive, now: float) -> None:
        """Take one sign of life."""
        pair = (subject.service, subject.node)
        self._heard[pair] = now
        if alive.complete and alive.stream_created is not None:
            self._complete[pair, alive.stream_created] = now

    def heard_s(self, pair: Pair, now: float) -> float | None:
        """Seconds since the last sign of life, complete or not."""
        heard = self._heard.get(pair)
        return None if heard is None else now - heard

    def age_s(self, pair: Pair, created: datetime | None, now: float) -> float | None:
        """Seconds since the last complete one about this stream."""
        said = None if created is None else self._complete.get((pair, created))
        return None if said is None else now - said

    def fresh(self, created: datetime | None, now: float) -> frozenset[Pair]:
        """All pairs that are fresh."""
        return frozenset(
            pair
            for (pair, about), said in self._complete.items()
            if about == created and now - said <= self._fresh_for_s
        )

    def is_fresh(self, pair: Pair, created: datetime | None, now: float) -> bool:
        """Whether one pair is fresh."""
        age = self.age_s(pair, created, now)
        return age is not None and age <= self._fresh_for_s

    def nodes(self, service: Service) -> frozenset[str]:
        """The nodes from which a service was heard within the last hour."""
        return frozenset(node for name, node in self._heard if name is service and node is not None)

    def forget(self, now: float) -> None:
        """Drop who was not heard for an hour."""
        self._heard = {pair: heard for pair, heard in self._heard.items() if now - heard <= _FORGET_S}
        self._complete = {key: said for key, said in self._complete.items() if now - said <= _FORGET_S}
