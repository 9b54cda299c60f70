"""The term that every write of a leader carries, and what a refusal by the fence policy means. Pure.

The API server compares the annotation with the Lease's leaseTransitions; each API server may lag a little behind, so a
refusal that names a lower term than ours is no word about us.
"""

import re
from enum import StrEnum
from typing import Final

from kvberth.kube.errors import Refused

FENCE: Final = "kvberth.dev/fence"
"""Annotation with the writer's term; left out of every comparison of objects."""

_TERM = re.compile(r"the write carries term \w*, the lease says (\d+)")
_HOLDER = re.compile(r"writes, the lease is held by \S+ with term (\d+)")


class FenceVerdict(StrEnum):
    """What a refusal says about our leadership."""

    OTHER = "other"
    """It was not the fence that refused."""
    LAGS = "lags"
    """This API server does not know our term yet: repeat."""
    DEPOSED = "deposed"
    """Somebody leads with a higher term."""


def fence_verdict(error: Refused, term: int) -> FenceVerdict:
    """Judge a refusal of a write that carried this term."""
    by_term, by_holder = _TERM.search(str(error)), _HOLDER.search(str(error))
    found = by_term or by_holder
    if found is None:
        return FenceVerdict.OTHER
    present = int(found.group(1))
    if present != term:
        return FenceVerdict.DEPOSED if present > term else FenceVerdict.LAGS
    # In our own term only the holder may write; a write that forgot its term is a fault of ours.
    return FenceVerdict.DEPOSED if by_holder else FenceVerdict.OTHER
