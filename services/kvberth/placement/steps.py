"""What a plan consists of: steps for `apply`, statuses for readers, questions that must be answered first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kvberth.kvcache import CacheSize, GateSpec, Variable
from kvberth.placement.memory import Arrivals, AtRest, Held
from kvberth.placement.reasons import Reason
from kvberth.placement.states import Needs, WorkloadKey
from kvberth_schemas.events import KVCacheStatusV1
from kvberth_schemas.wants import Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do about a KVCache's cache on a node, with the reason and the event that led to it."""

    kvcache: str
    uid: str
    node: str
    reason: Reason
    message: str
    cause: str | None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Step):
    """Ask for a cache and its directory, or renew what is asked for."""

    pool: str
    size: CacheSize
    env: tuple[Variable, ...]
    gate: GateSpec
    needs: Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Step):
    """Ask for a cache's directory alone, or renew that: no cache is there, and gates follow the manifest."""

    gate: GateSpec
    needs: Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Step):
    """Let a directory go that stood alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(Step):
    """Ask for the end of a cache."""

    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Step):
    """End a life of a cache that stays wanted, so that the next one begins, of this size."""

    why: Why
    size: CacheSize
    answers: bool
    """Whether that life answers, so that its end loses something."""
    pod: str | None = None
    """The uid of the pod whose life is to end, and of no other (Kubernetes)."""
    incarnation: str | None = None
    """The same of a process (bare)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Step):
    """A removed cache has ended: clean up what was asked for; `moved_to` names the node that took over."""

    moved_to: str | None
    cache: bool = True
    """Whether there was a cache; else its directory stood alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(Step):
    """The node itself is gone: nobody is left who could stop anything there."""

    cache: bool = True
    """As of a `Finish`."""


AnyStep = Place | Claim | Release | Remove | Restart | Finish | Forget


def failed(step: AnyStep, why: str, until: datetime) -> Held:
    """Return what is remembered, and told, of a step that could not be taken."""
    if isinstance(step, Place):
        first = step.reason is Reason.ENGINE_BOUND
        what = "no cache could be asked for" if first else "what is asked for could not be renewed"
        return Held(Reason.STEP_FAILED, f"{what} on {step.node}: {why}", until)
    if isinstance(step, Claim | Release):
        return Held(Reason.STEP_FAILED, f"gates on {step.node} could not be told of the manifest: {why}", until, True)
    return Held(Reason.STEP_FAILED, f"kept: {why}", until)


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision for one namespace."""

    steps: tuple[AnyStep, ...]
    statuses: tuple[KVCacheStatusV1, ...]
    finished: tuple[str, ...]
    """Names of KVCaches that are gone with everything of theirs: their status goes too."""
    questions: frozenset[WorkloadKey]
    """Workloads to be read live; a plan with the answers may remove more."""
    undecided: frozenset[str]
    """KVCaches for which answers are missing: their statuses say so."""
    idle: frozenset[tuple[str, str]]
    """KVCache and node of caches without an engine."""
    recheck_at: datetime | None
    """When time alone may change the plan."""
    at_rest: Mapping[str, AtRest] = field(default_factory=dict, compare=False)
    """By KVCache: what the next plan need not look at again; no part of the decision."""
    arrivals: Mapping[str, Arrivals] = field(default_factory=dict, compare=False)
    """By KVCache: the engines seen, so that the next plan sees who came; no part of the decision."""
