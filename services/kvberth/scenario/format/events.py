"""Which message of the bus is meant. Pure."""

from difflib import get_close_matches
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, model_validator

from kvberth.scenario.format import fields as bodies
from kvberth.scenario.format.base import SOME, ExactDuration, HowMany, Name, OneOf, Part, Regex, timed
from kvberth_schemas.registry import EVENTS, WANTS


class Comparison(OneOf):
    """A rule for one value, where equality is not enough."""

    matches: Regex | None = None
    """A regular expression that is found in the value's text."""
    differs: Any = None
    """Any other value than this one."""
    at_least: float | None = None
    at_most: float | None = None


_TYPES: Final = {
    name.removeprefix("kvberth.").removesuffix(".v1"): body for name, body in [*EVENTS.items(), *WANTS.items()]
}


def _known_type(text: str) -> str:
    """Refuse a type that nobody says: a rule about it would hold for ever, and mean nothing."""
    if text not in _TYPES:
        close = get_close_matches(text, _TYPES, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(_TYPES)}"
        raise ValueError(f"there is no type of message '{text}'; {hint}")
    return text


def _rule(value: object) -> object:
    """Refuse a map that is no comparison: it was meant as one."""
    if isinstance(value, dict) and not (len(value) == 1 and next(iter(value)) in Comparison.model_fields):
        raise ValueError(f"{value} is no comparison; write one of {', '.join(Comparison.choices())}, or a plain value")
    return value


MessageType = Annotated[
    str, AfterValidator(_known_type), Field(examples=["pod.scheduled", "socket.ready", "want.cache"])
]
_Rule = Annotated[Any, AfterValidator(_rule)]


class EventMatch(Part):
    """Messages of the bus: all that is written must hold."""

    type: MessageType | None = None
    """The type without ``kvberth.`` and version: ``pod.scheduled``, ``cache.moved``, ``want.cache``."""
    subject: str | None = None
    """A pattern over the NATS subject, as in NATS: ``*`` is one token, ``>`` all that follow."""
    node: Name | None = None
    """The node that the message names, in its subject or its field ``node``."""
    namespace: Name | None = None
    name: Name | None = None
    """The thing that it is about: a KVCache, a node, or a pod's name."""
    fields: dict[str, _Rule] = Field(default_factory=dict)
    """Fields of the body by dotted path, ``*`` for any item of a list: a value that it must equal, or a comparison
    (``{matches: …}``, ``{differs: …}``, ``{at_least: …}``, ``{at_most: …}``)."""

    @model_validator(mode="after")
    def _fields_exist(self) -> Self:
        known = [_TYPES[self.type]] if self.type else list(_TYPES.values())
        for path, rule in self.fields.items():
            wrong = bodies.fault(self.type, known, path, _compared(rule))
            if wrong:
                raise ValueError(wrong)
        return self

    def __str__(self) -> str:
        """Describe it."""
        words = [self.type or "any message"]
        words += [f"on {self.node}"] if self.node else []
        words += [f"about {'/'.join(filter(None, (self.namespace, self.name)))}"] if self.name or self.namespace else []
        words += [f"on {self.subject}"] if self.subject else []
        words += (
            ["with " + ", ".join(f"{path} {told(rule)}" for path, rule in self.fields.items())] if self.fields else []
        )
        return " ".join(words)


def _compared(rule: object) -> object:
    """Give the value that a field must equal, or must not; ``...`` where it is compared in another way."""
    if isinstance(rule, dict):
        return rule.get("differs", ...)
    return rule


def told(rule: object) -> str:
    """Describe a rule for a value."""
    if isinstance(rule, dict) and len(rule) == 1 and next(iter(rule)) in Comparison.model_fields:
        word, value = next(iter(rule.items()))
        return f"{word.replace('_', ' ')} {value!r}"
    return f"= {rule!r}"


class EventSeen(EventMatch):
    """So many messages like that were on the bus."""

    count: HowMany = SOME
    """How many; default: at least one."""
    since: Name | None = None
    """Only what was said after that mark; default: everything (in a ``during``: since it began)."""
    by: ExactDuration | None = None
    """Only what was said at most so long after that mark, by the message's own time."""

    @model_validator(mode="after")
    def _by_since(self) -> Self:
        if self.by and not self.since:
            raise ValueError("'by' counts from a mark; name it by 'since'")
        return self

    def __str__(self) -> str:
        """Say it."""
        return f"{self.count} x {super().__str__()}" + timed(self.since, self.by)


class InOrder(Part):
    """Messages that were on the bus in that order; others may stand between."""

    events: list[EventMatch] = Field(min_length=2)
    since: Name | None = None
    by: ExactDuration | None = None
    """The last of them at most so long after the first, by their own times."""

    def __str__(self) -> str:
        """Say it."""
        told = "in this order: " + "; then ".join(map(str, self.events))
        return told + (f", all in {self.by}" if self.by else "")
