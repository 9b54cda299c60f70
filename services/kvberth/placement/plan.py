"""The decision: a snapshot in, a plan out. Pure: no I/O, no clock, no randomness.

A plan is taken as done by the statuses that come with it. Planning again after its steps were applied gives no steps.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from kvberth.placement.additions import Additions, Room, additions
from kvberth.placement.arrivals import arrivals, rested, successors_of
from kvberth.placement.claims import Unserved
from kvberth.placement.conditions import Outcome
from kvberth.placement.membership import Membership, accept_names, membership
from kvberth.placement.memory import Arrivals, AtRest, Held
from kvberth.placement.moves import Over, finishes
from kvberth.placement.reasons import Reason
from kvberth.placement.removals import Candidates, Removals, removals
from kvberth.placement.rest import Work, at_rest, work_on
from kvberth.placement.restarts import Restarts, restarts
from kvberth.placement.snapshot import Snapshot
from kvberth.placement.states import KVCache, Life, WorkloadKey
from kvberth.placement.status import active_rows, status
from kvberth.placement.steps import AnyStep, Claim, Finish, Forget, Plan, Release
from kvberth_schemas.events import KVCacheStatusV1

_NO_CACHE_THERE: Final = frozenset({Reason.CANNOT_FIT, Reason.NODE_EXCLUDED, Reason.NO_POOL, Reason.TURNED_OFF})
"""Why an engine has no cache beside it as long as nobody changes something."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for all KVCaches."""

    quiet_for: timedelta = timedelta(seconds=60)
    """How long a node that never said anything about a stopped cache is waited for."""
    retry: timedelta = timedelta(seconds=5)
    """How long after an unanswered live read the next one is made."""


@dataclass(slots=True)
class _Draft:
    steps: list[AnyStep] = field(default_factory=list)
    statuses: list[KVCacheStatusV1] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    questions: set[WorkloadKey] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)
    idle: set[tuple[str, str]] = field(default_factory=set)
    recheck: list[datetime] = field(default_factory=list)
    at_rest: dict[str, AtRest] = field(default_factory=dict)
    arrivals: dict[str, Arrivals] = field(default_factory=dict)

    def take(self, found: "_Found") -> None:
        """Add what one KVCache needs; the new node comes before the old one leaves."""
        self.steps.extend(
            (*found.adding.steps, *found.alone, *found.removing.steps, *found.restarting.steps, *found.ended)
        )
        self.questions |= found.removing.questions
        self.recheck.extend((*found.removing.recheck, *found.restarting.recheck))

    def plan(self) -> Plan:
        """Return it as a plan."""
        return Plan(
            steps=tuple(self.steps),
            statuses=tuple(self.statuses),
            finished=tuple(self.finished),
            questions=frozenset(self.questions),
            undecided=frozenset(self.undecided),
            idle=frozenset(self.idle),
            recheck_at=min(self.recheck, default=None),
            at_rest=self.at_rest,
            arrivals=self.arrivals,
        )


@dataclass(slots=True)
class _Found:
    """What is to be done about one KVCache."""

    adding: Additions = field(default_factory=Additions)
    removing: Removals = field(default_factory=Removals)
    restarting: Restarts = field(default_factory=Restarts)
    ended: list[Finish] = field(default_factory=list)
    alone: list[Claim | Release] = field(default_factory=list)


def plan(snapshot: Snapshot, policy: Policy, now: datetime) -> Plan:
    """Return what to do about the caches of one namespace, and what to say about them."""
    kvcaches = accept_names(snapshot.kvcaches)
    planner = _Planner(snapshot, policy, now, membership(kvcaches, snapshot), Room(snapshot.cluster))
    for item in kvcaches:
        planner.consider(item)
    return planner.draft.plan()


@dataclass(frozen=True, slots=True)
class _Planner:
    snapshot: Snapshot
    policy: Policy
    now: datetime
    engines: Membership
    room: Room
    draft: _Draft = field(default_factory=_Draft)

    def consider(self, item: KVCache) -> None:
        work = work_on(item, self.engines.of[item.name], self.snapshot)
        found = _Found()
        seen = arrivals(item, self.engines, work, self.snapshot)
        due = self._held(item)
        alone = {node: one for node, one in due.items() if one.directory_only}
        held = {node: one for node, one in due.items() if node not in alone}
        if self.snapshot.freshness.known and item.life in {Life.LIVE, Life.DELETED}:
            adding = found.adding = self._additions(item, work, held)
            if not item.frozen:
                off = frozenset(node for node, (why, _) in adding.refused.items() if why is Reason.TURNED_OFF)
                candidates = Candidates(work.caches, off, seen.successors, held)
                found.removing = removals(item, candidates, self.engines, self.snapshot, self.policy.retry, self.now)
                found.restarting = self._restarts(item, work, held, found)
                unserved = Unserved(item, self.engines.of[item.name], work, adding, self.snapshot.cluster)
                others = due.keys() | {step.node for step in found.removing.steps}
                found.alone = [step for step in unserved.steps() if step.node not in others]
                for node in alone.keys() & adding.refused.keys():
                    reason, why = adding.refused[node]
                    adding.refused[node] = (reason, f"{why}; {alone[node].message}")
            busy = {step.node for step in (*adding.steps, *found.alone)} | held.keys()
            found.ended = self._finishes(item, work, busy, seen)
        self.draft.take(found)
        if found.removing.questions - self.snapshot.live.keys():
            self.draft.undecided.add(item.name)
        self.draft.idle.update((item.name, node) for node in found.removing.idle)
        self._tell(item, work, self._outcome(item, work, found, seen))
        resting = self.draft.at_rest.get(item.name)
        self.draft.arrivals[item.name] = rested(seen, self.engines.of[item.name], resting)

    def _tell(self, item: KVCache, work: Work, outcome: Outcome) -> None:
        if self._is_finished(item, outcome):
            self.draft.finished.append(item.name)
            return
        rows = active_rows(outcome)
        self.draft.statuses.append(status(outcome, rows, self.now))
        if self.snapshot.freshness.known and not (item.off or item.frozen):
            busy = outcome.placed | outcome.removed | outcome.refused.keys() | outcome.kept.keys()
            busy |= outcome.restarted.keys() | self.engines.of[item.name].astray.keys()
            self.draft.at_rest[item.name] = at_rest(work, self.engines.of[item.name], self.snapshot, rows, busy)

    def _held(self, item: KVCache) -> dict[str, Held]:
        """The nodes on which no step is tried now."""
        held = {node: one for (name, node), one in self.snapshot.memory.held.items() if name == item.name}
        due = {node: one for node, one in held.items() if self.now < one.until}
        self.draft.recheck.extend(one.until for one in due.values())
        return due

    def _additions(self, item: KVCache, work: Work, held: Mapping[str, Held]) -> Additions:
        if item.off or item.spec is None or not item.spec.accepted:
            return Additions()
        return additions(item, work.bound, work.caches, held, self.snapshot.cluster, self.room)

    def _restarts(self, item: KVCache, work: Work, held: Mapping[str, Held], found: _Found) -> Restarts:
        """What leaves begins no other life, and nobody waits for a cache that can't be."""
        if item.off or item.spec is None:
            return Restarts()
        if leaving := {step.node for step in found.removing.steps}:
            work = replace(work, caches={node: cache for node, cache in work.caches.items() if node not in leaving})
        if without := {node for node, (why, _) in found.adding.refused.items() if why in _NO_CACHE_THERE}:
            without = {node for node in without if node not in work.caches or not work.caches[node].asked}
            work = replace(work, bound={node: here for node, here in work.bound.items() if node not in without})
        return restarts(item, work, held, self.snapshot, self.room, self.now)

    def _finishes(self, item: KVCache, work: Work, busy: Collection[str], seen: Arrivals) -> list[Finish]:
        nodes = self.snapshot.cluster.nodes
        stopping = [node for node, cache in work.caches.items() if cache.stopping and node in nodes]
        if not stopping:
            return []
        here = {node: cache for node, cache in self.snapshot.caches[item.name].items() if node in nodes}
        for node in stopping:
            wanted = here[node].wanted
            due = wanted.since + self.policy.quiet_for if wanted is not None else self.now
            if due > self.now and node not in busy:
                self.draft.recheck.append(due)
        following = self.engines.of[item.name]
        over = Over(self.snapshot.freshness, self.policy.quiet_for, self.now)
        found = finishes(item, here, over, lambda node: successors_of(node, following, seen.successors))
        return [step for step in found if step.node not in busy]

    def _outcome(self, item: KVCache, work: Work, found: _Found, seen: Arrivals) -> Outcome:
        adding, removing, ended = found.adding, found.removing, found.ended
        forgotten = {step.node for step in removing.steps if isinstance(step, Forget)}
        return Outcome(
            item=item,
            following=self.engines.of[item.name],
            work=work,
            snapshot=self.snapshot,
            placed={step.node for step in adding.steps},
            claimed={step.node for step in found.alone if isinstance(step, Claim)},
            removed={step.node for step in removing.steps} - forgotten,
            forgotten=forgotten | {step.node for step in ended},
            refused=adding.refused,
            restarted={step.node: step.message for step in found.restarting.steps},
            kept=found.restarting.kept | removing.kept,
            moved=next((step.message for step in reversed(ended) if step.moved_to), ""),
            successors=seen.successors - {step.moved_to for step in ended},
        )

    def _is_finished(self, item: KVCache, outcome: Outcome) -> bool:
        """Whether a KVCache that is not there has nothing left that its status could tell of."""
        if item.life not in {Life.DELETED, Life.NOT_FOUND} or not self.snapshot.freshness.known:
            return False
        caches = self.snapshot.caches.get(item.name, {})
        return all(
            node in outcome.forgotten or (cache.wanted is None and not cache.running) for node, cache in caches.items()
        )
