"""Fields of a workload that Kubernetes does not have: most are slips, which would be lost in silence. Pure.

Looks at the parts that we read. What stands there unread is known by its name alone, as Kubernetes 1.36 has it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel

from kvberth.kvcache.faults import stray_complaints, unknown_fields
from kvberth_schemas.manifests import Complaint, Deployment, StatefulSet, Workload, pods, workloads

_OBJECT: Final = (
    "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation managedFields "
    "name namespace ownerReferences resourceVersion selfLink uid"
)
_CONTAINER: Final = (
    "envFrom ports resizePolicy restartPolicyRules securityContext stdin stdinOnce terminationMessagePath "
    "terminationMessagePolicy tty volumeDevices workingDir"
)
_POD: Final = (
    "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers "
    "hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets os overhead "
    "preemptionPolicy priority readinessGates resourceClaims resources runtimeClassName schedulerName schedulingGates "
    "schedulingGroup serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
    "topologySpreadConstraints"
)
_POD_SECURITY: Final = (
    "appArmorProfile fsGroupChangePolicy runAsNonRoot seLinuxChangePolicy seLinuxOptions seccompProfile "
    "supplementalGroupsPolicy sysctls windowsOptions"
)
_VOLUME: Final = (
    "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc flexVolume "
    "flocker gcePersistentDisk gitRepo glusterfs image iscsi nfs persistentVolumeClaim photonPersistentDisk "
    "portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume"
)
UNREAD: Final[Mapping[type[BaseModel], str]] = {
    Deployment: "status",
    StatefulSet: "status",
    pods.ObjectMeta: _OBJECT,
    pods.TemplateMeta: _OBJECT,
    workloads.LabelSelector: "",
    workloads.SelectorRequirement: "",
    workloads.ClaimTemplate: "apiVersion kind spec status",
    pods.PodTemplateSpec: "",
    pods.PodSpec: _POD,
    pods.Container: _CONTAINER,
    pods.ResourceRequirements: "claims",
    pods.VolumeMount: "mountPropagation recursiveReadOnly subPathExpr",
    pods.Volume: _VOLUME,
    pods.HostPath: "",
    pods.Affinity: "podAffinity podAntiAffinity",
    pods.NodeAffinity: "preferredDuringSchedulingIgnoredDuringExecution",
    pods.NodeSelector: "",
    pods.NodeSelectorTerm: "",
    pods.Requirement: "",
    pods.PodSecurityContext: _POD_SECURITY,
    pods.EnvVar: "",
    pods.Toleration: "",
}
"""By model: the fields of Kubernetes that it leaves unread."""
SPECS: Final[Mapping[str, str]] = {
    "Deployment": "minReadySeconds paused progressDeadlineSeconds revisionHistoryLimit strategy",
    "StatefulSet": (
        "minReadySeconds ordinals persistentVolumeClaimRetentionPolicy podManagementPolicy revisionHistoryLimit "
        "serviceName updateStrategy"
    ),
}
"""The same of `spec`, by kind."""


def workload_strays(raw: Mapping[str, Any], kind: Literal["Deployment", "StatefulSet"]) -> Iterator[Complaint]:
    """Return what kubectl would refuse, and an API server drop with a warning: each field that there is not."""
    model: type[Workload] = Deployment if kind == "Deployment" else StatefulSet
    unread: dict[type[BaseModel], str] = {**UNREAD, workloads.WorkloadSpec: SPECS[kind]}
    found = unknown_fields(model, raw, "", {part: names.split() for part, names in unread.items()})
    return stray_complaints(found, f"is no field of a {kind}, and is left out")
