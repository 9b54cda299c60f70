"""The parts of pods that kvberth reads: metadata, template, containers, volumes, tolerations, affinity.

Everything else in a pod is Kubernetes' own and is let through unread.
"""

from typing import Literal

from pydantic import Field

from kvberth_schemas.manifests.base import (
    AbsolutePath,
    AnnotationKey,
    Count,
    DnsLabel,
    DnsSubdomain,
    EnvName,
    Json,
    Known,
    Labels,
    NotEmpty,
    Resources,
    Seq,
    SubPath,
    Text,
    Tolerant,
)

ImagePullPolicy = Literal["Always", "IfNotPresent", "Never"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class ObjectMeta(Tolerant):
    """What users write in `metadata`; what the API server adds is let through."""

    name: DnsSubdomain
    namespace: DnsLabel | None = None
    labels: Labels | None = None
    annotations: dict[AnnotationKey, str] | None = None


class TemplateMeta(Tolerant):
    """Metadata of a pod template: no name of its own."""

    labels: Labels | None = None
    annotations: dict[AnnotationKey, str] | None = None


class EnvVar(Known):
    """One environment variable; `valueFrom` is kept as it is."""

    name: EnvName
    value: str | None = None
    value_from: Json | None = None


class ResourceRequirements(Tolerant):
    """Requests and limits as texts of quantities."""

    requests: Resources | None = None
    limits: Resources | None = None


class VolumeMount(Tolerant):
    """Where a volume appears in a container."""

    name: Text
    mount_path: AbsolutePath
    sub_path: SubPath | None = None
    read_only: bool | None = None


class Container(Tolerant):
    """A container; probes and lifecycle hooks are kept as they are."""

    name: DnsLabel
    image: str | None = None
    image_pull_policy: ImagePullPolicy | None = None
    command: Seq[str] | None = None
    args: Seq[str] | None = None
    env: Seq[EnvVar] | None = None
    resources: ResourceRequirements | None = None
    volume_mounts: Seq[VolumeMount] | None = None
    restart_policy: str | None = None
    startup_probe: Json | None = None
    readiness_probe: Json | None = None
    liveness_probe: Json | None = None
    lifecycle: Json | None = None


class HostPath(Tolerant):
    """A directory or file of the node."""

    path: AbsolutePath
    type: str | None = None


class Volume(Tolerant):
    """A volume; only hostPath is read."""

    name: DnsLabel
    host_path: HostPath | None = None


class Toleration(Known):
    """What a pod tolerates."""

    key: str | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: str | None = None
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Requirement(Tolerant):
    """One expression over labels or fields of a node."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Seq[str] | None = None


class NodeSelectorTerm(Tolerant):
    """Expressions that must all hold; the terms of a selector are alternatives."""

    match_expressions: Seq[Requirement] | None = None
    match_fields: Seq[Requirement] | None = None


class NodeSelector(Tolerant):
    """Alternatives of node requirements."""

    node_selector_terms: Seq[NodeSelectorTerm]


class NodeAffinity(Tolerant):
    """Required node affinity; preferred affinity is let through unread."""

    required: NodeSelector | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Tolerant):
    """Node affinity; pod affinity is let through unread."""

    node_affinity: NodeAffinity | None = None


class PodSecurityContext(Tolerant):
    """Under whom the pod runs."""

    run_as_user: Count | None = None
    run_as_group: Count | None = None
    fs_group: Count | None = None
    supplemental_groups: Seq[Count] | None = None


class PodSpec(Tolerant):
    """What kvberth reads of a pod's spec."""

    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: Seq[Toleration] | None = None
    termination_grace_period_seconds: Count | None = None
    restart_policy: Literal["Always", "OnFailure", "Never"] | None = None
    priority_class_name: str | None = None
    security_context: PodSecurityContext | None = None
    init_containers: Seq[Container] | None = None
    containers: NotEmpty[Container]
    volumes: Seq[Volume] | None = None
    node_name: str | None = None


class PodTemplateSpec(Tolerant):
    """What a workload makes its pods of."""

    metadata: TemplateMeta | None = None
    spec: PodSpec

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods, empty where the template gives none."""
        return dict((self.metadata and self.metadata.labels) or {})

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the pods, empty where the template gives none."""
        return dict((self.metadata and self.metadata.annotations) or {})
