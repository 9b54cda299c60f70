"""Requests to the bare backend's scheduler and its answers (NATS request and reply)."""

from enum import StrEnum

from pydantic import Field

from kvberth_schemas.events.nodes import Resources, Taint
from kvberth_schemas.model import Message

_KINDS = {
    "deployment": "Deployment",
    "deploy": "Deployment",
    "statefulset": "StatefulSet",
    "sts": "StatefulSet",
    "kvcache": "KVCache",
    "pod": "Pod",
    "po": "Pod",
}


def known_kind(word: str) -> str | None:
    """Give the kind that a person means, short or in the plural, too; None where no request is about it."""
    lower = word.lower()
    return _KINDS.get(lower) or _KINDS.get(lower.removesuffix("s"))


class Outcome(StrEnum):
    """What became of one object of a request."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    """It has no effect here, whatever becomes of the others."""
    HELD_BACK = "held back"
    """It is right, but another object of its text was refused."""
    REFUSED = "refused"

    @classmethod
    def _missing_(cls, value: object) -> "Outcome | None":
        # A later version may say more; the rest of its answer, and each sentence, are worth reading all the same.
        return cls.IGNORED if isinstance(value, str) else None


class Result(Message):
    """The outcome for one object, with the field and the sentence where it was not accepted."""

    kind: str
    namespace: str | None
    name: str
    outcome: Outcome
    field: str | None = None
    sentence: str = ""
    warnings: tuple[str, ...] = ()
    """Why an accepted object will not be acted on as it is, a sentence each; its condition `Accepted` says the same."""


class Reply(Message):
    """The answer to every request but `workload`."""

    results: tuple[Result, ...]

    @property
    def refused(self) -> bool:
        """Whether any object was refused."""
        return any(result.outcome is Outcome.REFUSED for result in self.results)


class ApplyRequest(Message):
    """Apply the documents of a file."""

    text: str
    source: str = "standard input"
    namespace: str = "default"
    """For objects that name none."""
    all_or_nothing: bool = False
    """Whether one refused object holds back the whole text. Otherwise each object is taken or refused by itself."""

    @property
    def extra_s(self) -> float:
        """Seconds more than other requests that it may take, by its size: a whole text of 512 KiB has seven."""
        return len(self.text) / (72 * 1024)


class ObjectRequest(Message):
    """Delete an object (Deployment, StatefulSet, KVCache, Pod)."""

    kind: str
    namespace: str = "default"
    name: str
    has_effect: bool = True
    """False: by its manifest `apply` ignores such an object, so that it is no fault where there is none."""


class ScaleRequest(Message):
    """Set the number of replicas of a Deployment or StatefulSet."""

    kind: str = "Deployment"
    namespace: str = "default"
    name: str
    replicas: int = Field(ge=0, le=1000)


class NodeRequest(Message):
    """Cordon, uncordon, drain or delete a node."""

    node: str


class WorkloadRequest(Message):
    """Placement's live read before a removal: what does that workload want now?"""

    namespace: str
    kind: str
    name: str


class WorkloadReply(Message):
    """What a workload wants and has at this moment."""

    found: bool
    wanted: int
    bound: int
    """Pods of it that are bound to a node and not deleting."""
    waiting: int = 0
    deleting: int = 0


class RegisterRequest(Message):
    """A runner announces its node, at start and at each reconnect."""

    node: str
    labels: dict[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Resources
    unschedulable: bool = False
    boot_id: str
    root: str
    """The node's root directory for sockets, so that `apply` can refuse a path that would grow too long."""
