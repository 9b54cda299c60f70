"""What is known of a cluster before the install. Pure data; a question without an answer is `Unasked`, never a no."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pydantic import Field

from kvberth.cli.preflight.parts import OURS, PART_OF
from kvberth.kube.objects import KubeObject, Meta, Trimmed
from kvberth.kube.resources import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unasked:
    """A question that got no answer, and why."""

    why: str


Answer: TypeAlias = T | Unasked


class ServerVersion(Trimmed):
    """What ``/version`` says."""

    major: str = ""
    minor: str = ""
    git_version: str = ""


class _Version(Trimmed):
    name: str
    served: bool = False


class _DefinitionSpec(Trimmed):
    versions: tuple[_Version, ...] = ()


class _DefinitionStatus(Trimmed):
    stored_versions: tuple[str, ...] = ()


class Definition(KubeObject):
    """The CustomResourceDefinition of KVCache."""

    spec: _DefinitionSpec = _DefinitionSpec()
    status: _DefinitionStatus = _DefinitionStatus()


class _Container(Trimmed):
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class _PodSpec(Trimmed):
    containers: tuple[_Container, ...] = ()


class _Template(Trimmed):
    spec: _PodSpec = _PodSpec()


class _WorkloadSpec(Trimmed):
    replicas: int = 1
    template: _Template = _Template()


class Workload(KubeObject):
    """A Deployment or DaemonSet: what it runs."""

    spec: _WorkloadSpec = _WorkloadSpec()


class Labelled(KubeObject):
    """An object of which only the metadata matters."""


class _Condition(Trimmed):
    type: str
    status: str


class _NodeInfo(Trimmed):
    operating_system: str = ""


class _NodeStatus(Trimmed):
    conditions: tuple[_Condition, ...] = ()
    node_info: _NodeInfo = Field(default_factory=_NodeInfo)


class Node(KubeObject):
    """A node: whether it is ready, and for what programs."""

    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class Present:
    """An object that is there under a name that the install uses."""

    resource: Resource
    meta: Meta
    images: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """How a sentence names it."""
        return self.resource.title(self.meta.namespace, self.meta.name)


@dataclass(frozen=True, slots=True)
class Right:
    """Something that the caller may not do."""

    verb: str
    resource: Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One look at a cluster."""

    version: ServerVersion
    admission: Answer[frozenset[str]]
    """Plurals that ``admissionregistration.k8s.io/v1`` serves."""
    definition: Answer[Definition | None]
    deployments: Answer[tuple[Workload, ...]]
    """All of the cluster."""
    namespaces: Answer[tuple[Labelled, ...]]
    kvcaches: Answer[tuple[Labelled, ...]]
    nodes: Answer[tuple[Node, ...]]
    present: Answer[tuple[Present, ...]]
    missing: Answer[tuple[Right, ...]]
    """Rights to install that the caller lacks."""
    ha: bool = False
    """Whether the overlay `ha` is to be installed."""


def ours(meta: Meta) -> bool:
    """Whether an object says that it is of kvberth."""
    return meta.labels.get(PART_OF) == OURS
