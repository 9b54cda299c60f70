"""Deployment and StatefulSet: the parts that the bare backend honours. Other fields are let through unread."""

from typing import Literal

from kvberth_schemas.manifests.base import Count, Labels, Seq, Text, Tolerant
from kvberth_schemas.manifests.pods import ObjectMeta, PodTemplateSpec


class SelectorRequirement(Tolerant):
    """One expression over labels of pods."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Seq[str] | None = None

    def matches(self, labels: dict[str, str]) -> bool:
        """Tell whether the labels of a pod satisfy this expression."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in (self.values or ())
            case "NotIn":
                return value is None or value not in (self.values or ())
            case "Exists":
                return value is not None
        return value is None


class LabelSelector(Tolerant):
    """Which pods belong to a workload."""

    match_labels: Labels | None = None
    match_expressions: Seq[SelectorRequirement] | None = None

    @property
    def is_empty(self) -> bool:
        """An empty selector would match every pod; workloads may not have one."""
        return not self.match_labels and not self.match_expressions

    def matches(self, labels: dict[str, str]) -> bool:
        """Tell whether a pod with these labels is selected."""
        exact = all(labels.get(key) == value for key, value in (self.match_labels or {}).items())
        return exact and all(requirement.matches(labels) for requirement in self.match_expressions or ())


class ClaimTemplate(Tolerant):
    """A volume that a StatefulSet gives each of its pods."""

    metadata: ObjectMeta


class WorkloadSpec(Tolerant):
    """What Deployment and StatefulSet have in common; `replicas` None means 1."""

    replicas: Count | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    volume_claim_templates: Seq[ClaimTemplate] | None = None


class Workload(Tolerant):
    """A Deployment or a StatefulSet."""

    api_version: Literal["apps/v1"]
    kind: Literal["Deployment", "StatefulSet"]
    metadata: ObjectMeta
    spec: WorkloadSpec

    @property
    def replicas(self) -> int:
        """How many pods are wanted."""
        return 1 if self.spec.replicas is None else self.spec.replicas


class Deployment(Workload):
    """A Deployment (apps/v1)."""

    kind: Literal["Deployment"]


class StatefulSet(Workload):
    """A StatefulSet (apps/v1)."""

    kind: Literal["StatefulSet"]
