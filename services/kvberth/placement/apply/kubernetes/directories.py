"""What is asked of node agents about the directories of caches on Kubernetes. Pure."""

from dataclasses import replace
from typing import Final

from kvberth.kvcache import SOCKET_GROUP
from kvberth.placement.states import Needs, Wanted
from kvberth.placement.steps import Claim, Place
from kvberth_schemas.wants import DirWantV1, Why

GROUP_ONLY: Final = 0o2770
EVERYBODY: Final = 0o755


def keep(namespace: str, step: Place | Claim, term: int) -> DirWantV1:
    """Ask for a directory; open to everybody only where an engine could not enter otherwise."""
    return DirWantV1(
        term=term,
        state="keep",
        why=Why.WANTED,
        namespace=namespace,
        kvcache=step.kvcache,
        mode=EVERYBODY if step.needs.strangers else GROUP_ONLY,
        gid=SOCKET_GROUP,
        gate_policy=step.gate.policy,
        gate_timeout_s=step.gate.timeout_s,
        cache=isinstance(step, Place),
    )


def drop(namespace: str, kvcache: str, why: Why, term: int, *, cache: bool) -> DirWantV1:
    """Ask for the end of a directory, which was a cache's or stood alone."""
    return DirWantV1(term=term, state="drop", why=why, namespace=namespace, kvcache=kvcache, cache=cache)


def adopted(wanted: Wanted, want: DirWantV1) -> Wanted:
    """Return what the directory of an earlier life asks for: one that is kept stands alone until a set names its node.

    One that is dropped was a cache's, unless it is said to have stood alone: versions that say neither leave it open,
    and an end is rather told than kept back.
    """
    kept = want.state == "keep"
    alone = kept or want.cache is False
    return replace(wanted, directory=kept or not alone, only_directory=alone, needs=Needs(strangers=strangers_of(want)))


def strangers_of(said: DirWantV1) -> frozenset[str]:
    """What an earlier life's directory says of its engines: that there were strangers, not who."""
    return frozenset({"an engine"} if said.mode == EVERYBODY else ())
