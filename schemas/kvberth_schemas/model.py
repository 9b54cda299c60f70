"""The one base of everything that travels on the bus."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen message; readers ignore fields that they do not know, so that adding one breaks nobody."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        json_schema_serialization_defaults_required=True,
        use_attribute_docstrings=True,
    )


class Event(Message):
    """A fact in the past tense, one class per released version."""

    ce_type: ClassVar[str]
    """The CloudEvents type, as ``kvberth.pod.scheduled.v1``."""


class Want(Message):
    """What a node is asked to keep or run. Absence never means stop."""

    ce_type: ClassVar[str]

    term: int
    """The writer's term; in stream order, a lower one than seen before is ignored."""
