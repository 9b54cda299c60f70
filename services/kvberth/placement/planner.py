"""Runs the plan of one namespace at a time: remembers what plans need, asks what they ask, takes their steps.

It decides nothing: what to do comes from `plan`, how it is done is the backend's.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from kvberth.bus import BusError
from kvberth.placement.apply import ApplyError, Backend, Standing
from kvberth.placement.arrivals import after
from kvberth.placement.calm import Times, recent
from kvberth.placement.memory import Arrivals, AtRest, Held, Memory
from kvberth.placement.observe import Index
from kvberth.placement.plan import Policy, plan
from kvberth.placement.snapshot import Freshness, LiveWorkload
from kvberth.placement.states import WorkloadKey
from kvberth.placement.steps import AnyStep, Plan, Remove, Restart, failed
from kvberth.service import Telemetry
from kvberth_schemas.events import KVCacheStatusV1

_log = structlog.stdlib.get_logger(__name__)

Live = Mapping[WorkloadKey, LiveWorkload]
Questions = frozenset[WorkloadKey]


class Speaker(Protocol):
    """Says the status of a KVCache to everybody."""

    def say(self, status: KVCacheStatusV1, before: KVCacheStatusV1 | None, /) -> None:
        """Say it; unchanged, nothing happens. `before` is what this life or an earlier one said last."""
        ...

    def say_gone(self, namespace: str, name: str) -> None:
        """Say that the KVCache whose status this was is gone."""
        ...


class Planner:
    """Plans namespaces, one after the other."""

    def __init__(
        self,
        index: Index,
        backend: Backend,
        speaker: Speaker,
        term: int,
        telemetry: Telemetry,
        now: Callable[[], datetime],
    ) -> None:
        """Nothing happens before `adopt`."""
        self._term = term
        self._index = index
        self._backend = backend
        self._speaker = speaker
        self._telemetry = telemetry
        self._now = now
        self._policy = Policy()
        self._memory: dict[str, _Remembered] = defaultdict(_Remembered)
        self._recheck: dict[str, datetime] = {}
        self.speaking = False
        """Whether statuses are said: not before it could be heard who is alive, or each start would say Unknown."""
        self._lock = asyncio.Lock()
        self._plans = 0
        self._seconds = telemetry.histogram("kvberth.placement.plan", "Time to plan one namespace.")
        self._steps = telemetry.counter("kvberth.placement.steps", "Steps that were taken.")

    async def adopt(self, statuses: Iterable[KVCacheStatusV1]) -> None:
        """Take over what an earlier life asked for and said."""
        for status in statuses:
            self._memory[status.namespace].statuses[status.name] = status
        for standing in await self._backend.adopt():
            self._note(standing)

    def due(self, now: datetime) -> set[str]:
        """Return the namespaces whose plan may change because of the time, and forget that they were due."""
        due = {namespace for namespace, at in self._recheck.items() if at <= now}
        for namespace in due:
            del self._recheck[namespace]
        return due

    @property
    def next_due(self) -> datetime | None:
        """When the next namespace is due."""
        return min(self._recheck.values(), default=None)

    async def run(self, namespace: str, freshness: Freshness, live: Live | None = None) -> Questions:
        """Plan a namespace and take the steps; return what has to be asked before more can be done.

        `live` holds the answers; None: nobody was asked yet, and what depends on answers is not told so long.
        """
        async with self._lock:
            now = self._now()
            started = asyncio.get_running_loop().time()
            snapshot = self._index.snapshot(
                namespace,
                term=self._term,
                freshness=freshness,
                memory=self._memory[namespace].view(),
                live=live or {},
                steady_s=started,
            )
            result = plan(snapshot, self._policy, now)
            self._seconds.record(asyncio.get_running_loop().time() - started)
            taken, undone = await self._take(namespace, result.steps)
            self._backend.settle(namespace)
            self._remember(namespace, result, taken, freshness, self._now())
            if undone:  # what this plan says of them is not so, but what the next one says is
                self._recheck[namespace] = now
            self._say(namespace, result, untold=undone | (result.undecided if live is None else frozenset()))
            if namespace not in self._index.namespaces and not self._memory[namespace].statuses:
                del self._memory[namespace]  # nothing is left that it could be about
        return result.questions - (live or {}).keys()

    async def _take(self, namespace: str, steps: tuple[AnyStep, ...]) -> tuple[list[AnyStep], frozenset[str]]:
        """Take steps: those that were, and the KVCaches of the others, which are held for a while."""
        self._plans += 1 if steps else 0
        taken, held = [], dict[tuple[str, str], Held]()
        for step in steps:
            kind = type(step).__name__.lower()
            headers = {"traceparent": step.traceparent} if step.traceparent is not None else None
            try:
                with self._telemetry.handling(kind, headers, step.cause or ""):
                    standing = await self._backend.take(namespace, step, f"{self._term}-{self._plans}")
                    self._note(standing)
            except (ApplyError, BusError) as error:
                _log.error("a step could not be taken", step=kind, kvcache=step.kvcache, reason=str(error))
                held[step.kvcache, step.node] = failed(step, str(error), self._now() + self._policy.retry)
                continue
            if standing.held is not None:
                held[step.kvcache, step.node] = standing.held
                continue
            taken.append(step)
            self._steps.add(1, {"step": kind})
            _log.info(step.message, step=kind, namespace=namespace, kvcache=step.kvcache, reason=step.reason.value)
        self._memory[namespace].held.update(held)
        return taken, frozenset(kvcache for kvcache, _ in held)

    def _note(self, standing: Standing) -> None:
        self._index.set_wanted(standing.namespace, standing.kvcache, standing.node, standing.wanted)

    def _remember(
        self, namespace: str, result: Plan, taken: list[AnyStep], freshness: Freshness, now: datetime
    ) -> None:
        if result.recheck_at is not None:
            self._recheck[namespace] = min(result.recheck_at, self._recheck.get(namespace, result.recheck_at))
        self._memory[namespace].take(result, taken, now, known=freshness.known)

    def _say(self, namespace: str, result: Plan, untold: Collection[str]) -> None:
        statuses = self._memory[namespace].statuses
        said = self._memory[namespace].said
        for status in result.statuses:
            if status.name in untold or (status.name in said and statuses.get(status.name) == status):
                continue
            if not self.speaking:
                self._keep_move(statuses, status)
                continue
            before, statuses[status.name] = statuses.get(status.name), status
            said.add(status.name)
            self._speaker.say(status, before)
        for name in result.finished:
            said.discard(name)
            if statuses.pop(name, None) is not None:
                self._speaker.say_gone(namespace, name)

    def _keep_move(self, statuses: dict[str, KVCacheStatusV1], status: KVCacheStatusV1) -> None:
        """A move that ends before anything is said must not be lost."""
        known = statuses.get(status.name)
        if known is not None and known.uid == status.uid:
            statuses[status.name] = known.model_copy(update={"moved": status.moved, "moved_at": status.moved_at})


class _Remembered:
    """What must outlive a plan."""

    def __init__(self) -> None:
        self.statuses: dict[str, KVCacheStatusV1] = {}
        self.said: set[str] = set()
        """Names of the KVCaches whose status this process has said; the others' are an earlier life's."""
        self._removals: Times = {}
        self._restarts: Times = {}
        self._idle: dict[tuple[str, str], datetime] = {}
        self._at_rest: Mapping[str, AtRest] = {}
        self._arrivals: Mapping[str, Arrivals] = {}
        self.held: dict[tuple[str, str], Held] = {}

    def view(self) -> Memory:
        return Memory(
            self.statuses, self._removals, self._restarts, self._idle, self._at_rest, self._arrivals, self.held
        )

    def take(self, result: Plan, taken: list[AnyStep], now: datetime, *, known: bool) -> None:
        self.held = {key: held for key, held in self.held.items() if now < held.until}
        if known:  # while nothing is known, nothing has become busy either
            self._idle = {key: self._idle.get(key, now) for key in result.idle}
            self._at_rest = result.at_rest
            self._arrivals = after(result.arrivals, taken)
        removed = [step.kvcache for step in taken if isinstance(step, Remove)]
        restarted = [step.kvcache for step in taken if isinstance(step, Restart)]
        self._removals = recent(self._removals, removed, now)
        self._restarts = recent(self._restarts, restarted, now)


def wait_s(next_due: datetime | None, now: datetime, most: float) -> float:
    """Return how long nothing has to be done."""
    if next_due is None:
        return most
    return min(max((next_due - now) / timedelta(seconds=1), 0.0), most)
