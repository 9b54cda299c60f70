"""What may be expected of the last states on the bus: caches, engines, conditions, status, nodes. Pure."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from kvberth.scenario.format.base import ExactDuration, HowMany, Name, Part, Regex, timed


class Caches(Part):
    """Caches of a KVCache answer a real register request on exactly these nodes, and on no other."""

    kvcache: Name
    nodes: list[Name]
    namespace: Name = "default"

    def __str__(self) -> str:
        """Say it."""
        return f"caches of {self.kvcache} answer on exactly {', '.join(sorted(self.nodes)) or 'no node'}"


class Engines(Part):
    """Engine pods of a workload, as the bus says."""

    workload: Name
    namespace: Name = "default"
    count: HowMany | None = None
    nodes: list[Name] | None = None
    """The nodes of the pods counted, each as often as it has one, in any order."""
    ready: HowMany | None = None
    """How many of them are ready."""
    waiting: HowMany | None = None
    """How many pods have no node."""
    why: Regex | None = None
    """Why a waiting one has none."""
    restarts: HowMany | None = None
    """Of each of them."""
    deleting: bool | None = None
    """Count only those that are being deleted (true), or are not (false); default: all."""

    def __str__(self) -> str:
        """Say it."""
        said = [f"{self.count} engines"] if self.count else []
        said += [f"engines on {', '.join(sorted(self.nodes)) or 'no node'}"] if self.nodes is not None else []
        said += [f"{self.ready} ready"] if self.ready else []
        said += [f"{self.waiting} waiting"] if self.waiting else []
        said += [f"waiting because of '{self.why}'"] if self.why else []
        said += [f"{self.restarts} restarts each"] if self.restarts else []
        which = {True: " (ending ones)", False: " (staying ones)", None: ""}[self.deleting]
        return f"{self.workload}{which} has {', '.join(said) or 'engines'}"


def _word(value: object) -> object:
    """YAML reads a bare True as a boolean; it means the word."""
    return str(value) if isinstance(value, bool) else value


ConditionType = Literal["Accepted", "Placed", "SocketsReady", "Healthy", "BlocksReady", "MetadataReady", "Ready"]
"""The conditions that placement says; a rule about another one would hold for ever."""


class ConditionOf(Part):
    """A condition of a KVCache."""

    kvcache: Name
    type: ConditionType
    namespace: Name = "default"
    status: Annotated[
        Literal["True", "False", "Unknown"] | None,
        BeforeValidator(_word, json_schema_input_type=Literal["True", "False", "Unknown"] | bool | None),
    ] = None
    reason: Name | None = None
    message: Regex | None = None
    since: Name | None = None
    """It was said to be so after that mark, whatever was said later."""
    by: ExactDuration | None = None
    """And that at most so long after the mark, by the status' own time."""

    @model_validator(mode="after")
    def _by_since(self) -> Self:
        if self.by and not self.since:
            raise ValueError("'by' counts from a mark; name it by 'since'")
        return self

    def __str__(self) -> str:
        """Say it."""
        words = [f"{key} {value}" for key, value in (("status", self.status), ("reason", self.reason)) if value]
        words += [f"message '{self.message}'"] if self.message else []
        said = f"{self.kvcache} has the condition {self.type} with {', '.join(words) or 'any status'}"
        return said + timed(self.since, self.by)


class StatusOf(Part):
    """The status of a KVCache beside its conditions."""

    kvcache: Name
    namespace: Name = "default"
    exists: bool = True
    engines: HowMany | None = None
    served: HowMany | None = None
    """Engines that are served."""
    nodes: list[Name] | None = None
    """Exactly the nodes that its rows name."""
    states: dict[Name, Literal["serving", "starting", "leaving", "unknown", "missing"]] = Field(default_factory=dict)
    """State of a node's row."""
    health: dict[Name, Name] = Field(default_factory=dict)
    """Health of a node's row, in a word: ``Proven``, ``Hung``, ``AgentSilent``."""
    proofs: dict[Name, ExactDuration] = Field(default_factory=dict)
    """A node's row says that the last proof was at most so long before or after the mark ``since``."""
    since: Name | None = None
    """For ``proofs``."""
    moved: Regex | None = None
    """The sentence about the last move."""
    generation: int | None = None
    """The observed generation."""
    mentions: Regex | None = None
    """Found anywhere in the status as JSON, in names of fields, too; with ``not:`` nowhere."""

    @model_validator(mode="after")
    def _proofs_since(self) -> Self:
        if bool(self.proofs) != bool(self.since):
            raise ValueError("'proofs' and 'since' belong together: the last proof lies so near to that mark")
        return self

    def __str__(self) -> str:
        """Say it."""
        if not self.exists:
            return f"{self.kvcache} has no status"
        said = [f"{self.engines} engines"] if self.engines else []
        said += [f"{self.served} served"] if self.served else []
        said += [f"rows for {', '.join(sorted(self.nodes)) or 'no node'}"] if self.nodes is not None else []
        said += [f"{node} {state}" for node, state in [*self.states.items(), *self.health.items()]]
        said += [f"{node} last proven within {span} of '{self.since}'" for node, span in self.proofs.items()]
        said += [f"moved '{self.moved}'"] if self.moved else []
        said += [f"generation {self.generation}"] if self.generation is not None else []
        said += [f"'{self.mentions}' somewhere"] if self.mentions else []
        return f"the status of {self.kvcache} has {', '.join(said) or 'any content'}"


class NodeIs(Part):
    """A node, as the bus says."""

    name: Name
    exists: bool = True
    ready: bool | None = None
    cordoned: bool | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    def __str__(self) -> str:
        """Say it."""
        if not self.exists:
            return f"the node {self.name} is not known"
        said = [("ready" if self.ready else "not ready")] if self.ready is not None else []
        said += [("cordoned" if self.cordoned else "not cordoned")] if self.cordoned is not None else []
        said += [f"{key}={value}" for key, value in self.labels.items()]
        return f"the node {self.name} is {', '.join(said) or 'known'}"
