"""Which manifests are applied: a file, text, or objects, with changes. Pure."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from kvberth.scenario.format.base import Name, Names, Part, Regex, one_or_more


class Change(Part):
    """A JSON merge patch (RFC 7386: null removes a key, a list replaces a list) for objects of a manifest."""

    kind: Name | None = None
    """Only objects of this kind."""
    name: Name | None = None
    """Only the object of this name."""
    merge: dict[str, Any] = Field(examples=[{"spec": {"replicas": 3}}])


_Changes = Annotated[list[Change], BeforeValidator(one_or_more, json_schema_input_type=Change | list[Change])]


class Apply(Part):
    """What is applied."""

    file: Names = Field(default_factory=list)
    """Paths, from the scenario's own folder."""
    objects: list[dict[str, Any]] = Field(default_factory=list)
    """Objects written out here."""
    text: str | None = None
    """Raw text, for what is no YAML."""
    only: Names = Field(default_factory=list)
    """Only objects of these kinds, or ``Kind/name``."""
    change: _Changes = Field(default_factory=list)
    """Changes made before it is applied."""
    namespace: Name = "default"
    """For objects that name none."""
    accepted: list[Name] | None = None
    """Exactly the names that must be accepted."""
    refused: dict[Name, Regex] = Field(default_factory=dict)
    """Names that must be refused, with a sentence like that; any other refusal fails the step."""

    def __str__(self) -> str:
        """Say it."""
        objects = [f"{item.get('kind')}/{(item.get('metadata') or {}).get('name')}" for item in self.objects]
        what = [*self.file, *objects, *(["text"] if self.text else [])]
        return "apply " + ", ".join(what) + (f" (only {', '.join(self.only)})" if self.only else "")


def _plain(value: object) -> object:
    """Let ``apply: file.yaml`` and a list of files stand for ``apply: {file: …}``."""
    return {"file": value} if isinstance(value, str | list) else value


AnyApply = Annotated[Apply, BeforeValidator(_plain, json_schema_input_type=Names | Apply)]
