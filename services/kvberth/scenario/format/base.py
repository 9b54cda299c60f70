"""The small types that every part of a scenario is made of. Pure."""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kvberth.scenario import durations


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"'{text}' is no regular expression ({error})") from error
    return text


def _duration(text: str) -> str:
    durations.check(text)
    return text


def _exact(text: str) -> str:
    if durations.names_in(text):
        raise ValueError(f"'{text}' names a wait; by a message's own time a bound is written out, such as 2s")
    return text


def one_or_more(value: object) -> object:
    """Let one thing stand for a list of one."""
    return value if isinstance(value, list) else [value]


Regex = Annotated[str, AfterValidator(_regex), Field(examples=["relocated from l20-a"])]
"""A regular expression (Python's), found anywhere in the text."""

Duration = Annotated[str, AfterValidator(_duration), Field(examples=["5s", "500ms", "node_lost + 10s"])]
"""A time span: ``5s``, ``500ms``, ``2m``, ``1h``, a name from ``time:``, or a sum or difference of them."""

ExactDuration = Annotated[Duration, AfterValidator(_exact)]
"""A time span that is written out, and so never shortened: ``2s``."""

Name = Annotated[str, Field(min_length=1, max_length=253)]
Names = Annotated[list[Name], BeforeValidator(one_or_more, json_schema_input_type=Name | list[Name])]
"""One name, or a list of names."""


class Part(BaseModel):
    """A piece of a scenario; a key that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Count(Part):
    """How many: bounds, both included."""

    at_least: int = Field(0, ge=0)
    at_most: int | None = Field(None, ge=0)

    def allows(self, number: float) -> bool:
        """Whether a number lies within the bounds."""
        return self.at_least <= number and (self.at_most is None or number <= self.at_most)

    def __str__(self) -> str:
        """Spell the bounds."""
        if self.at_most is None:
            return f"at least {self.at_least}"
        if self.at_least == self.at_most:
            return f"{self.at_least}" if self.at_least else "no"
        return f"{self.at_least} to {self.at_most}" if self.at_least else f"at most {self.at_most}"


def _count(value: object) -> object:
    exact = isinstance(value, int) and not isinstance(value, bool)
    return {"at_least": value, "at_most": value} if exact else value


_Exact = Annotated[int, Field(ge=0)]
HowMany = Annotated[Count, BeforeValidator(_count, json_schema_input_type=_Exact | Count)]
"""An exact number, or ``{at_least: 1, at_most: 3}``."""


SOME = Count(at_least=1, at_most=None)
"""At least one."""


def timed(since: str | None, by: str | None) -> str:
    """Say after which mark, and how long after it at most."""
    return (f", at most {by} after '{since}'" if by else f" since '{since}'") if since else ""


class OneOf(Part):
    """A piece of which exactly one of some keys stands; `choices` are those keys."""

    apart: ClassVar[frozenset[str]] = frozenset()
    """The keys that may stand beside the one."""

    @classmethod
    def choices(cls) -> list[str]:
        """Give the keys of which one must stand, as they are written."""
        return [field.alias or name for name, field in cls.model_fields.items() if name not in cls.apart]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 (pydantic's signature)
        """Say the rule in the JSON Schema, too."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.model_config["json_schema_extra"] = _one_of(cls)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        found = self.present()
        if len(found) != 1:
            known = ", ".join(self.choices())
            what = f"{' and '.join(found)} stand together" if found else "none of its keys stands there"
            raise ValueError(f"{what}; write exactly one of {known}")
        return self

    def present(self) -> list[str]:
        """Give the choices that were written."""
        aliases = {name: field.alias or name for name, field in type(self).model_fields.items()}
        return [aliases[name] for name in type(self).model_fields if name in self.model_fields_set - self.apart]

    @property
    def kind(self) -> str:
        """The one key that stands."""
        return self.present()[0]

    @property
    def value(self) -> Any:  # noqa: ANN401 (its type depends on the key)
        """What stands at the one key."""
        return next(
            getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set - self.apart
        )


def _one_of(cls: type[OneOf]) -> Callable[[dict[str, Any]], None]:
    def extend(schema: dict[str, Any]) -> None:
        schema["oneOf"] = [{"required": [choice]} for choice in cls.choices()]

    return extend
