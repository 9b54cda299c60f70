"""The status of a KVCache as Kubernetes shows it. Written by placement, read by people and their tools.

Fields that are not listed here are let through: an object of AIBrix may carry its own.
"""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from kvberth_schemas.manifests.base import Known, Seq, Text


class StatusCondition(Known):
    """One condition, as Kubernetes' own."""

    type: Annotated[Text, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=1024)]
    message: Annotated[str, Field(max_length=32768)]
    last_transition_time: AwareDatetime
    observed_generation: Annotated[int, Field(ge=0)] | None = None


class StatusNode(Known):
    """One node that has, or should have, a cache."""

    node: Text
    pool: str | None = None
    state: str | None = Field(default=None, description="serving, starting, leaving, unknown or missing")
    pod: str | None = None
    socket: str | None = None
    incarnation: str | None = None
    engines: Seq[str] | None = None
    engines_without_cache: Seq[str] | None = None
    memory_limit: Annotated[int, Field(ge=0)] | None = Field(default=None, description="bytes")
    last_proof_time: AwareDatetime | None = None
    message: str | None = None


_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


class KVCacheStatusFields(Known):
    """What placement knows of a KVCache."""

    observed_generation: int | None = None
    term: int | None = Field(default=None, description="term of the placement that wrote this; the fence compares it")
    replicas: int | None = Field(default=None, description="spec.replicas as wanted; the caches follow the engines")
    engines: int | None = None
    engines_served: int | None = None
    caches: int | None = Field(default=None, description="nodes whose cache answers")
    nodes: Seq[StatusNode] | None = None
    moved: str | None = Field(default=None, description="the last move, in a sentence")
    moved_time: AwareDatetime | None = None
    conditions: Annotated[Seq[StatusCondition] | None, Field(json_schema_extra=_BY_TYPE)] = None
