"""The expectation: exactly one kind, and when. `kvberth.scenario.judge` judges it. Pure."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from kvberth.scenario.format.base import Duration, Name, Names, OneOf, one_or_more
from kvberth.scenario.format.events import EventSeen, InOrder
from kvberth.scenario.format.lives import AnyIdentity, Lives, Reaches, StartOrder
from kvberth.scenario.format.machine import (
    CliSays,
    LogSays,
    MemoryIs,
    MetricIs,
    PathIs,
    ProcessIs,
    ReadyIs,
    SocketIs,
)
from kvberth.scenario.format.states import Caches, ConditionOf, Engines, NodeIs, StatusOf


class Expectation(OneOf):
    """One thing that must be true: exactly one kind, and when."""

    apart: ClassVar[frozenset[str]] = frozenset({"within", "needs", "requires", "measure"})

    caches: Caches | None = None
    engines: Engines | None = None
    condition: ConditionOf | None = None
    status: StatusOf | None = None
    node: NodeIs | None = None
    event: EventSeen | None = None
    order: InOrder | None = None
    start_order: StartOrder | None = None
    lives: Lives | None = None
    same: AnyIdentity | None = None
    """The processes are those that they were at the mark: not one was restarted or replaced."""
    changed: AnyIdentity | None = None
    """Each of the processes is another one than at the mark, and there is one."""
    process: ProcessIs | None = None
    socket: SocketIs | None = None
    path: PathIs | None = None
    metric: MetricIs | None = None
    ready: ReadyIs | None = None
    log: LogSays | None = None
    memory: MemoryIs | None = None
    cli: CliSays | None = None
    reaches: Reaches | None = None
    not_: "Expectation | None" = Field(None, alias="not")
    """The expectation below does not hold."""
    any_of: list["Expectation"] | None = Field(None, min_length=2)
    """At least one of them holds."""

    within: Duration | None = None
    """How long it may take to come true, from the beginning of its step; default: the step's."""
    needs: Names = Field(default_factory=list)
    """Abilities of kvberth without which it can't hold yet: skipped and counted while one is missing."""
    requires: Names = Field(default_factory=list)
    """Abilities of the backend without which it can't be judged: skipped and counted there."""
    measure: Name | None = None
    """Report the seconds until it came true under this name."""

    def __str__(self) -> str:
        """Say it."""
        if self.kind == "not":
            return f"not: {self.value}"
        if self.kind == "any_of":
            return "any of: " + " | ".join(map(str, self.value))
        if self.kind in {"same", "changed"}:
            verb = "the same process" if self.kind == "same" else "another process"
            return f"{self.value.whom()} is {verb} as at '{self.value.since}'"
        return str(self.value)

    def parts(self) -> list["Expectation"]:
        """Give the expectation, or those that it is made of."""
        if self.kind == "not":
            return self.value.parts()  # type: ignore[no-any-return]
        if self.kind == "any_of":
            return [part for item in self.value for part in item.parts()]
        return [self]


Expectations = Annotated[
    list[Expectation],
    BeforeValidator(one_or_more, json_schema_input_type=Expectation | list[Expectation]),
    Field(min_length=1),
]
