"""What follows the end of a list or a watch. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from kvberth.kube.errors import DeadlinePassed, Expired, KubeError, Refused, Throttled, Unauthorized


class Next(StrEnum):
    """How to go on."""

    RESUME = "resume"
    """From the last version, after the floor: nothing says that anything is wrong."""
    RESUME_LATER = "resume_later"
    """From the last version, after a back-off."""
    RELIST = "relist"
    """The version is of no use any more: list anew after a back-off, which is short where all went well before."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a stream ended, in a word for metrics, and what follows."""

    next: Next
    word: str
    sentence: str = ""
    asked_s: float | None = None


CLEAN = Ending(Next.RESUME, "ended")
SILENT = Ending(Next.RESUME, "silent")
"""An open stream said nothing for the silence deadline. It may be dead, or of a kind that nobody changed since the API
server started, which gets no bookmarks: only opening it anew can tell."""


def ending_of(error: KubeError | ValueError) -> Ending:
    """Judge an error of a watch. Whatever isn't understood costs a new list: a lost change could never be found."""
    sentence = str(error)
    if isinstance(error, Expired):
        return Ending(Next.RELIST, "expired", sentence)
    if isinstance(error, Throttled):
        return Ending(Next.RESUME_LATER, "throttled", sentence, error.retry_after_s)
    if isinstance(error, Unauthorized):
        return Ending(Next.RESUME_LATER, "unauthorized", sentence)
    if isinstance(error, Refused):
        return Ending(Next.RESUME_LATER, "refused", sentence, error.retry_after_s)
    if isinstance(error, DeadlinePassed):
        return Ending(Next.RESUME_LATER, "unanswered", sentence)
    if isinstance(error, KubeError):
        return Ending(Next.RESUME_LATER, "lost", sentence)
    return Ending(Next.RELIST, "malformed", sentence)


def ending_of_fault(error: Refused) -> Ending:
    """Judge an ERROR frame: only a word of waiting leaves the version in use."""
    found = ending_of(error)
    return found if isinstance(error, (Expired, Throttled)) else Ending(Next.RELIST, "fault", found.sentence)
