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

_SENTENCE = re.compile(r"the write carries term (\w*), the lease says (\d+)")


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
    found = _SENTENCE.search(str(error))
    if found is None:
        return FenceVerdict.OTHER
    return FenceVerdict.DEPOSED if int(found.group(2)) > term else FenceVerdict.LAGS
