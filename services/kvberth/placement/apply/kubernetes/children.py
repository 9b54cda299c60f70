"""Decides what to write so that a KVCache's children are as they should be. Pure.

Never touches what is not ours: another's object of the name is told, an earlier life's is waited for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kvberth.kube import Target
from kvberth.kube.resources import DAEMON_SETS
from kvberth.kvcache import KVCACHE_LABEL
from kvberth.placement.apply.kubernetes.compare import differences
from kvberth.placement.apply.kubernetes.kinds import LiveService, LiveSet
from kvberth.placement.apply.kubernetes.render import Child, Owner, nodes_of
from kvberth.placement.memory import Trouble
from kvberth.placement.reasons import Reason

Live = LiveSet | LiveService
Name = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object that is not there."""

    child: Child


@dataclass(frozen=True, slots=True)
class Apply:
    """Write our fields over an object that is ours; `paths` are those that differ."""

    child: Child
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object of ours that nothing needs any more."""

    target: Target


@dataclass(frozen=True, slots=True)
class Blocked:
    """Nothing can be written there now."""

    target: Target
    trouble: Trouble


Write = Create | Apply | Delete | Blocked


def writes(owner: Owner, wanted: Iterable[Child], live: Mapping[Name, Live]) -> list[Write]:
    """Return what to write, given all objects with the label of this KVCache in its namespace."""
    children = {(child.target.resource.kind, child.target.name): child for child in wanted}
    found = [_write(owner, child, live.get(name)) for name, child in children.items()]
    found += [_leave(owner, name, item) for name, item in sorted(live.items()) if name not in children]
    return [item for item in found if item is not None]


def ours(owner: Owner, item: Live) -> bool:
    """Whether an object is this very KVCache's."""
    references = item.metadata.owner_references
    labelled = item.metadata.labels.get(KVCACHE_LABEL) == owner.name
    return labelled and any(one.uid == owner.uid and one.controller for one in references)


def taken(child: Child, item: Live | None, owner: Owner) -> Trouble:
    """Say that the name of a child is somebody else's."""
    title = child.target.title
    if item is not None and any(one.uid == owner.uid for one in item.metadata.owner_references):
        return managed(title, owner)
    whose = _whose(item)
    message = f"{title} is not kvberth's ({whose}), and is left as it is; delete or rename it, or rename the KVCache"
    return Trouble(Reason.NAME_TAKEN, message)


def managed(title: str, owner: Owner) -> Trouble:
    """Say that another controller makes children for the KVCache."""
    message = (
        f"{title} was made for KVCache {owner.name} by another controller; stop that one, nothing is touched until then"
    )
    return Trouble(Reason.MANAGED_BY_ANOTHER, message)


def _write(owner: Owner, child: Child, item: Live | None) -> Write | None:
    if item is None:
        return Create(child)
    meta = item.metadata
    if meta.deleting:
        return Blocked(
            child.target,
            Trouble(Reason.EARLIER_LIFE, f"{child.target.title} is being deleted; it is made anew afterwards"),
        )
    if not ours(owner, item):
        return _earlier(child.target, item)
    body = {**child.body, "metadata": _comparable(child.body["metadata"])}
    live = {"metadata": item.metadata.model_dump(by_alias=True), "spec": item.spec}
    paths = tuple(differences(body, live))
    if not paths:
        return None
    target = replace(child.target, uid=meta.uid, resource_version=meta.resource_version)
    return Apply(replace(child, target=target), paths)


def _comparable(metadata: Mapping[str, object]) -> dict[str, object]:
    """References of other owners (E: none of ours) do not count, and ours is known to be there."""
    return {key: value for key, value in metadata.items() if key != "ownerReferences"}


def _earlier(target: Target, item: Live) -> Write:
    """An object with our label that is not this KVCache's: of an earlier life of the name."""
    if item.metadata.owner_references:
        message = f"{target.title} belongs to an earlier KVCache of that name and is collected soon"
        return Blocked(target, Trouble(Reason.EARLIER_LIFE, message))
    return Delete(_exactly(target, item))


def _leave(owner: Owner, name: Name, item: Live) -> Write | None:
    """A child that the manifest no longer names goes once no node is in it."""
    if item.metadata.deleting or not ours(owner, item) or not isinstance(item, LiveSet) or nodes_of(item.spec):
        return None
    from_kind = Target(DAEMON_SETS, item.metadata.namespace, name[1])
    return Delete(_exactly(from_kind, item))


def _exactly(target: Target, item: Live) -> Target:
    return replace(target, uid=item.metadata.uid, resource_version=item.metadata.resource_version)


def _whose(item: Live | None) -> str:
    if item is None:
        return "it has no label of ours"
    owners = [f"{one.kind} {one.name}" for one in item.metadata.owner_references]
    other = item.metadata.labels.get(KVCACHE_LABEL)
    if other is not None:
        return f"it is KVCache {other}'s"
    return f"it belongs to {', '.join(owners)}" if owners else "it has no owner and no label of ours"
