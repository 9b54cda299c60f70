"""The whole of a scenario file, and the rules that hold across its parts. Pure."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final, Self

from pydantic import Field, model_validator

from kvberth.scenario import capabilities, durations
from kvberth.scenario.format.base import Duration, Names, Part
from kvberth.scenario.format.names import nodes_named
from kvberth.scenario.format.steps import Step
from kvberth.scenario.format.verbs import AnyNode

PRODUCT_WAITS: Final = {
    "node_lost": "silence of a node after which its engines are bound elsewhere (300 s)",
    "node_not_ready": "silence of a node after which it is not ready (3 s)",
    "linger": "spec.lingerSeconds of every KVCache that the scenario applies (300 s)",
    "empty_directory": "time until a dropped cache directory is emptied (60 s)",
    "engine_backoff": "wait before an engine's second restart in a row (10 s)",
    "engine_drain": "how long an engine takes to end after it was told to (0 s)",
}
"""Waits of the product that a scenario may set in `time:`; any other name there is the scenario's own."""


class Options(Part):
    """Settings of the stack."""

    env: dict[str, str] = Field(default_factory=dict)
    """Environment of every service, for example ``KVBERTH_LOG_LEVEL: debug``."""


class Scenario(Part):
    """A story that runs."""

    name: str = ""
    """One line; default: the file's name."""
    case: Names = Field(default_factory=list)
    """The cases that it tells, for example C-001."""
    about: str = ""
    """What it shows, and what it leaves out."""
    deadline: Duration = "120s"
    """For the whole scenario, without the start of its stack."""
    needs: Names = Field(default_factory=list)
    """Abilities of kvberth without which the whole scenario is skipped."""
    requires: Names = Field(default_factory=list)
    """Abilities of the backend without which the whole scenario is skipped."""
    nodes: list[AnyNode] = Field(default_factory=lambda: ["l20-a", "l20-b"], validate_default=True, min_length=1)
    """The nodes at the start; default: l20-a and l20-b, one GPU each."""
    nodes_file: str | None = None
    """v1 Node objects instead, a path from the scenario's own folder."""
    time: dict[str, Duration] = Field(default_factory=dict)
    """Waits by name, in real units; long ones are shortened by ``--time-factor``."""
    options: Options = Options()
    steps: list[Step] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check_times()
        self._check_marks()
        self._check_abilities()
        self._check_nodes()
        return self

    def all_steps(self) -> Iterator[tuple[str, Step]]:
        """Give every step with its number: ``4``, and ``4.2`` within a window."""
        yield from _numbered(self.steps, "")

    def time_spans(self) -> Iterator[str]:
        """Give every time span that is written."""
        yield self.deadline
        for _, step in self.all_steps():
            yield from filter(None, (step.within, step.during.last if step.during else None))
            yield from filter(None, (item.within for item in step.expectations()))

    def timing(self, factor: float, promised: Mapping[str, float]) -> durations.Timing:
        """Give the waits of a run. Raises DurationError where the factor would change their order."""
        written = {name: durations.parse(text, {}) for name, text in self.time.items()}
        timing = durations.Timing(written, factor, promised)
        timing.check_order()
        return timing

    def _check_times(self) -> None:
        for name, text in self.time.items():
            if durations.names_in(text):
                raise ValueError(f"time.{name} is '{text}'; write it in real units, such as 300s")
            if name in durations.PROMISES:
                raise ValueError(f"time.{name} can't be set: it is what kvberth promises")
        used = {name for text in self.time_spans() for name in durations.names_in(text)}
        for name in sorted(used - self.time.keys() - durations.PROMISES.keys()):
            raise ValueError(f"the wait '{name}' is used but not named in 'time:'{_nearest(name, list(self.time))}")
        for name in sorted(self.time.keys() - used - PRODUCT_WAITS.keys()):
            raise ValueError(
                f"time.{name} is no wait of the product and no step uses it{_nearest(name, list(PRODUCT_WAITS))}"
            )

    def _check_marks(self) -> None:
        known: set[str] = set()
        for number, step in self.all_steps():
            for name in _marks_used(step):
                if name not in known:
                    raise ValueError(
                        f"step {number} looks back to the mark '{name}', which no earlier step sets"
                        f"{_nearest(name, list(known))}"
                    )
            known |= {step.mark} if step.mark else set()

    def _check_nodes(self) -> None:
        if self.nodes_file is not None:
            return
        known = [spec.name for spec in self.nodes]
        known += [step.node_add.name for _, step in self.all_steps() if step.node_add]
        for number, step in self.all_steps():
            for name in nodes_named(step):
                if name not in known:
                    raise ValueError(
                        f"step {number} names the node '{name}', which this scenario never has; it has "
                        f"{', '.join(known)}{_nearest(name, known)}"
                    )

    def _check_abilities(self) -> None:
        named = [("the scenario", self.needs, self.requires)]
        for number, step in self.all_steps():
            named.append((f"step {number}", step.needs, step.requires))
            named += [(f"step {number}", item.needs, item.requires) for item in step.expectations()]
        for where, needs, requires in named:
            for word, names, known in (
                ("needs", needs, capabilities.PRODUCT),
                ("requires", requires, capabilities.BACKEND),
            ):
                for name in names:
                    if name not in known:
                        raise ValueError(
                            f"{where} {word} '{name}', which is not known; known are {', '.join(known)}"
                            f"{_nearest(name, list(known))}"
                        )


def _numbered(steps: list[Step], before: str) -> Iterator[tuple[str, Step]]:
    for index, step in enumerate(steps, 1):
        yield f"{before}{index}", step
        if step.during:
            yield from _numbered(step.during.steps, f"{before}{index}.")


def _marks_used(step: Step) -> set[str]:
    used = {step.publish.again.since} if step.publish and step.publish.again else set()
    used |= {step.after.since} if step.after else set()
    for item in step.expectations():
        used |= {getattr(part.value, "since", None) for part in item.parts()}
    return {name for name in used if name}


def _nearest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
