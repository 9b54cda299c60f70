"""What is kept of an object: trimmed on entry, so that 50,000 pods fit into a small process. Pure.

Nothing of the raw object stays alive. How raw JSON becomes these is `kinds`' matter.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

T = TypeVar("T")


class Trimmed(BaseModel):
    """Base of all that is read from the API server: fields that are not named are dropped while parsing."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class OwnerReference(Trimmed):
    """Who owns an object."""

    api_version: str = ""
    kind: str
    name: str
    uid: str
    controller: bool = False


class Meta(Trimmed):
    """An object's metadata, without managedFields."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def deleting(self) -> bool:
        """Whether somebody deleted it and it is not gone yet."""
        return self.deletion_timestamp is not None


class KubeObject(Trimmed):
    """Base of the models that a `Kind` parses into."""

    metadata: Meta


class Key(NamedTuple):
    """An object's name within its kind; cluster-scoped objects have no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One object as kept. Another uid under the same key is another object."""

    key: Key
    uid: str
    resource_version: str
    value: T


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that is there but does not fit its model: unknown, never absent."""

    key: Key
    uid: str
    resource_version: str
    why: str
