"""Pydantic models of the objects that users write, and the reader of manifest files."""

from kvberth_schemas.manifests.complaint import Complaint
from kvberth_schemas.manifests.kvcache import KVCacheFields, KVCacheManifest
from kvberth_schemas.manifests.nodes import Node, NodeCondition, Taint
from kvberth_schemas.manifests.objects import CLUSTER_KINDS, DEFAULT_NAMESPACE, RawObject, load_documents, raw_object
from kvberth_schemas.manifests.pods import (
    Affinity,
    Container,
    EnvVar,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PodSpec,
    PodTemplateSpec,
    Requirement,
    Toleration,
    Volume,
    VolumeMount,
)
from kvberth_schemas.manifests.workloads import Deployment, LabelSelector, StatefulSet, Workload

__all__ = [
    "CLUSTER_KINDS",
    "DEFAULT_NAMESPACE",
    "Affinity",
    "Complaint",
    "Container",
    "Deployment",
    "EnvVar",
    "KVCacheFields",
    "KVCacheManifest",
    "LabelSelector",
    "Node",
    "NodeCondition",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectMeta",
    "PodSpec",
    "PodTemplateSpec",
    "RawObject",
    "Requirement",
    "StatefulSet",
    "Taint",
    "Toleration",
    "Volume",
    "VolumeMount",
    "Workload",
    "load_documents",
    "raw_object",
]
