"""A step: exactly one verb, and what stands beside it. Pure."""

from typing import ClassVar, Literal

from pydantic import Field

from kvberth.scenario.format.base import Duration, Name, Names, OneOf, Part
from kvberth.scenario.format.events import EventMatch
from kvberth.scenario.format.expectations import Expectations
from kvberth.scenario.format.manifests import AnyApply
from kvberth.scenario.format.targets import AnyTarget
from kvberth.scenario.format.verbs import (
    AnyKill,
    AnyNode,
    Delete,
    Fault,
    FileAct,
    Filled,
    Labels,
    NodeSpec,
    Patch,
    Peer,
    Publish,
    Scale,
)


class During(Part):
    """A window: what is done in it, and what must never, or always, be true meanwhile."""

    steps: list["Step"] = Field(default_factory=list)
    last: Duration = Field("0s", alias="for")
    """How long the window stays open after its last step."""
    never: Expectations | None = None
    """None of these may hold at any moment: looked at after every message and at least every 50 ms."""
    always: Expectations | None = None
    """Each of these must hold at every moment."""

    def __str__(self) -> str:
        """Say it."""
        return f"during {len(self.steps)} step{'' if len(self.steps) == 1 else 's'} and {self.last}"


class After(EventMatch):
    """The message at whose own time a clock starts."""

    since: Name | None = None
    """Only one said after that mark; default: in a ``during`` since it began, else ever."""
    which: Literal["first", "last"] = "first"
    """Where several match."""


class Step(OneOf):
    """One thing that is done, or waited for."""

    apart: ClassVar[frozenset[str]] = frozenset({"say", "within", "after", "needs", "requires"})

    apply: AnyApply | None = None
    """Apply manifests."""
    delete: Delete | None = None
    """Delete an object, as `kvberth delete`."""
    patch: Patch | None = None
    """Change an object that was applied."""
    scale: Scale | None = None
    """Change how many engines are wanted."""
    cordon: Name | None = None
    """Let no new engine come to a node."""
    uncordon: Name | None = None
    """Let engines come to a node again."""
    drain: Name | None = None
    """Cordon a node and delete its engines' pods."""
    node_down: Name | None = None
    """The node is lost: everything on it is dead until ``node_up``."""
    node_up: Name | None = None
    """The lost node boots again, with its services and none of its engines and caches."""
    node_delete: Name | None = None
    """The node's object is deleted."""
    node_add: AnyNode | None = None
    """A node that was not there joins."""
    node_label: Labels | None = None
    """Change labels of a node."""
    kill: AnyKill | None = None
    """Kill a process; who keeps it alive may start it again at once."""
    pause: AnyTarget | None = None
    """Stop a process (SIGSTOP): it lives and does nothing."""
    resume: AnyTarget | None = None
    """Let a paused process go on (SIGCONT)."""
    restart: AnyTarget | None = None
    """End a process in order (SIGTERM) and wait until its next life is there."""
    stop: AnyTarget | None = None
    """Kill a service or NATS, and keep it away until ``start``."""
    start: AnyTarget | None = None
    """Let what was stopped start again."""
    wipe: Literal["nats"] | None = None
    """Kill NATS and remove all that it stored, before it starts again."""
    disk: Literal["full", "free"] | None = None
    """NATS can write nothing any more, as on a full disk, until it is ``free``; `up` is held meanwhile."""
    publish: Publish | None = None
    """Say something on the bus that nobody of kvberth said."""
    files: FileAct | None = None
    """Change files below a node's root for sockets."""
    peer: Peer | None = None
    """Put a hostile program at a cache's socket."""
    fault: Fault | None = None
    """Let what is said between a cache and whoever asks it fail as networks and hung processes do."""
    fill: Filled | None = None
    """Put blobs into a cache until it has no room for another byte."""
    free: Filled | None = None
    """Delete the blobs that ``fill`` put there."""
    mark: Name | None = None
    """Remember this moment, and who lives at it, under a name."""
    expect: Expectations | None = None
    """What must be true now, or within 5 s (see ``within``)."""
    wait: Expectations | None = None
    """The same for what only has to be reached before the story goes on: within 30 s."""
    during: During | None = None
    """A window with rules."""

    say: str | None = None
    """A sentence for the reader, printed with the step."""
    within: Duration | None = None
    """For ``expect`` and ``wait``: how long they may take to come true."""
    after: After | None = None
    """For ``expect`` and ``wait``: their time counts from that message's own time, not from the step."""
    needs: Names = Field(default_factory=list)
    """Abilities of kvberth without which the step is skipped, and counted."""
    requires: Names = Field(default_factory=list)
    """Abilities of the backend without which the step is skipped, and counted."""

    def __str__(self) -> str:
        """Say it."""
        return self.say or f"{_TOLD.get(self.kind, '{kind} {value}').format(kind=self.kind, value=_told(self.value))}"

    def expectations(self) -> Expectations:
        """Give what the step expects, in windows too."""
        if self.kind in {"expect", "wait"}:
            return list(self.value)
        return [*(self.during.never or []), *(self.during.always or [])] if self.during else []


_TOLD = {
    "apply": "{value}",
    "delete": "{value}",
    "patch": "{value}",
    "scale": "{value}",
    "kill": "{value}",
    "publish": "{value}",
    "files": "{value}",
    "peer": "{value}",
    "fault": "{value}",
    "during": "{value}",
    "node_label": "{value}",
    "node_down": "the node {value} is lost",
    "node_up": "the node {value} boots again",
    "node_delete": "delete the node {value}",
    "disk": "the disk of NATS is {value}",
    "node_add": "add the node {value}",
}


def _told(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return value.name if isinstance(value, NodeSpec) else str(value)


During.model_rebuild()
