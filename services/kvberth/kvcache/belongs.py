"""Which KVCache an engine belongs to. Pure.

By the workload annotation, and the GPU type of its node where the KVCache names one (values are matched exactly);
for a KVCache without that annotation by the directory that the engine mounts. One engine has one KVCache: of several
that claim it the one whose directory it mounts serves, else the older.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvberth.kvcache.annotations import GPU_TYPE, annotation_path
from kvberth.kvcache.paths import kvcache_of_host_path
from kvberth.kvcache.spec import KVCacheSpec
from kvberth_schemas.manifests import Complaint


class Reason(StrEnum):
    """Why an engine belongs where it does."""

    WORKLOAD = "Workload"
    DIRECTORY = "Directory"
    DIRECTORY_DIFFERS = "DirectoryDiffers"
    CONFLICT = "Conflict"
    NOT_BOUND = "NotBound"
    NO_GPU_MATCH = "NoGpuMatch"
    LABELS_DO_NOT_MEET = "LabelsDoNotMeet"
    NO_KVCACHE = "NoKVCache"


@dataclass(frozen=True, slots=True)
class Claim:
    """A KVCache of the engine's namespace; `created` orders them by age (lower is older)."""

    spec: KVCacheSpec
    created: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """The KVCache that serves an engine (None: no one), why, and a sentence where there is something to say."""

    kvcache: str | None
    reason: Reason
    message: str = ""
    superseded: tuple[str, ...] = ()
    """Names of the KVCaches that claim the same engine and do not serve it."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Two KVCaches that claim the same engines, were there any, and the sentence about them."""

    older: str
    younger: str
    message: str


@dataclass(frozen=True, slots=True)
class Engine:
    """What the rule reads of an engine; `node_labels` is None while it is bound to no node."""

    model: str
    namespace: str
    host_paths: Sequence[str] = ()
    node_labels: Mapping[str, str] | None = None

    @property
    def directories(self) -> tuple[str, ...]:
        """Names of the KVCaches of its namespace whose directories it mounts."""
        owners = (kvcache_of_host_path(path) for path in self.host_paths)
        return tuple(dict.fromkeys(owner[1] for owner in owners if owner and owner[0] == self.namespace))


def assign(engine: Engine, claims: Iterable[Claim]) -> Assignment:
    """Return the KVCache that an engine belongs to, out of those of its namespace."""
    known = sorted(claims, key=lambda claim: (claim.created, claim.spec.name))
    by_workload = [claim for claim in known if claim.spec.workload == engine.model]
    by_directory = [claim for claim in known if claim.spec.workload is None and claim.spec.name in engine.directories]
    candidates = by_workload or by_directory
    if not candidates:
        return _nobody(engine, known)
    fitting = _fitting(engine, candidates)
    if isinstance(fitting, Assignment):
        return fitting
    return _chosen(engine, fitting, Reason.WORKLOAD if by_workload else Reason.DIRECTORY)


def rivals(claims: Iterable[Claim]) -> tuple[Rival, ...]:
    """Return the KVCaches that claim what an older one claims: the same workload, and the same GPU type or none.

    Whose directory an engine mounts is not asked here: as long as there is no engine, the oldest serves.
    """
    oldest: dict[tuple[str, str | None, str | None], KVCacheSpec] = {}
    found = []
    for claim in sorted(claims, key=lambda claim: (claim.created, claim.spec.name)):
        spec = claim.spec
        if spec.workload is None or not (spec.on and spec.accepted):
            continue
        older = oldest.setdefault((spec.workload, spec.gpu_type and spec.gpu_label_key, spec.gpu_type), spec)
        if older is not spec:
            found.append(Rival(older.name, spec.name, _conflict(older, (spec.name,), "it is the oldest")))
    return tuple(found)


def node_label_complaint(spec: KVCacheSpec, node_labels: Iterable[Mapping[str, str]]) -> Complaint | None:
    """Return that no node carries a GPU type of a KVCache (or of its first such pool), with the values nodes carry."""
    pools = [
        (f"spec.pools[{index}].gpuType", pool.gpu_label_key, pool.gpu_type) for index, pool in enumerate(spec.pools)
    ]
    asked = [(annotation_path(GPU_TYPE), spec.gpu_label_key, spec.gpu_type), *pools]
    nodes = list(node_labels)
    for field, key, value in asked:
        seen = {labels[key] for labels in nodes if key in labels}
        if value is not None and value not in seen:
            values = ", ".join(sorted(seen)) or "none"
            return Complaint(field, f"no node has {key}={value}; values seen: {values}", "write one of those seen")
    return None


def _fitting(engine: Engine, candidates: list[Claim]) -> list[Claim] | Assignment:
    """The claims for the GPU type of the engine's node: those that name it, else those that name none."""
    typed = [claim for claim in candidates if claim.spec.gpu_type is not None]
    untyped = [claim for claim in candidates if claim.spec.gpu_type is None]
    if not typed:
        return untyped
    if engine.node_labels is None:
        return Assignment(
            None, Reason.NOT_BOUND, f"engine of {engine.model} has no node yet, so its GPU type is not known"
        )
    labels = engine.node_labels
    exact = [claim for claim in typed if labels.get(claim.spec.gpu_label_key) == claim.spec.gpu_type]
    if exact or untyped:
        return exact or untyped
    asked = ", ".join(
        f"{claim.spec.name} asks for {claim.spec.gpu_label_key}={claim.spec.gpu_type}"
        f" (node has {labels.get(claim.spec.gpu_label_key) or 'no such label'})"
        for claim in typed
    )
    return Assignment(None, Reason.NO_GPU_MATCH, f"no KVCache of {engine.model} fits the node: {asked}")


def _chosen(engine: Engine, fitting: list[Claim], reason: Reason) -> Assignment:
    # One that is turned off or can't be acted on does not take an engine from one that serves.
    serving = [claim for claim in fitting if claim.spec.on and claim.spec.accepted] or fitting
    mounted = [claim for claim in serving if claim.spec.name in engine.directories]
    chosen = (mounted or serving)[0].spec
    others = tuple(claim.spec.name for claim in serving if claim.spec.name != chosen.name)
    if others:
        why = "its directory is mounted" if mounted else "it is the oldest"
        return Assignment(chosen.name, Reason.CONFLICT, _conflict(chosen, others, why), others)
    if engine.directories and chosen.name not in engine.directories:
        message = (
            f"engine of {engine.model} belongs to KVCache {chosen.name} by its workload annotation, "
            f"but mounts the directory of {_and(engine.directories)}"
        )
        return Assignment(chosen.name, Reason.DIRECTORY_DIFFERS, message)
    return Assignment(chosen.name, reason)


def _conflict(chosen: KVCacheSpec, others: tuple[str, ...], why: str) -> str:
    gpu = f" on GPU type {chosen.gpu_type}" if chosen.gpu_type else ""
    workload = f"workload {chosen.workload}" if chosen.workload else "the same engine"
    return f"KVCaches {_and((chosen.name, *others))} claim {workload}{gpu}; {chosen.name} serves, since {why}"


def _nobody(engine: Engine, known: list[Claim]) -> Assignment:
    mounted = [claim.spec for claim in known if claim.spec.name in engine.directories]
    if mounted:
        spec = mounted[0]
        asks = f"which asks for workload {spec.workload}"
        message = f"engine of {engine.model} mounts the directory of KVCache {spec.name}, {asks}"
        return Assignment(None, Reason.LABELS_DO_NOT_MEET, message)
    workloads = {claim.spec.workload: claim.spec.name for claim in known if claim.spec.workload is not None}
    close = difflib.get_close_matches(engine.model[:253], list(workloads), n=1, cutoff=0.8)
    if close:
        message = f"no KVCache asks for workload {engine.model}; {workloads[close[0]]} asks for {close[0]}"
        return Assignment(None, Reason.LABELS_DO_NOT_MEET, message)
    return Assignment(
        None, Reason.NO_KVCACHE, f"no KVCache of namespace {engine.namespace} asks for workload {engine.model}"
    )


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
