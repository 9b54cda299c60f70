"""What is asked of node agents about the directories of caches on Kubernetes. Pure."""

from typing import Final

from kvberth.kvcache import SOCKET_GROUP
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
    )


def drop(namespace: str, kvcache: str, why: Why, term: int) -> DirWantV1:
    """Ask for the end of a directory."""
    return DirWantV1(term=term, state="drop", why=why, namespace=namespace, kvcache=kvcache)


def strangers_of(said: DirWantV1) -> frozenset[str]:
    """What an earlier life's directory says of its engines: that there were strangers, not who."""
    return frozenset({"an engine"} if said.mode == EVERYBODY else ())
