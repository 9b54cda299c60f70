"""What the rules of this package read of a pod, whichever model it was parsed into: of a manifest, or of a live pod.

The two differ in strictness: a user's manifest is judged at the door, a live pod was let in by the API server.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Variable(Protocol):
    """An environment variable."""

    @property
    def name(self) -> str:
        """Its name; values don't count."""


class Mount(Protocol):
    """Where a volume appears in a container."""

    @property
    def name(self) -> str:
        """Name of the volume."""

    @property
    def mount_path(self) -> str:
        """Path in the container."""

    @property
    def sub_path(self) -> str | None:
        """Path below the volume."""


class HostPath(Protocol):
    """A path of the node."""

    @property
    def path(self) -> str:
        """It."""


class Volume(Protocol):
    """A volume; only hostPath is read."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def host_path(self) -> HostPath | None:
        """The path of the node that it is."""


class Amounts(Protocol):
    """Requests and limits as texts of quantities."""

    @property
    def requests(self) -> Mapping[str, str] | None:
        """By name of the resource."""

    @property
    def limits(self) -> Mapping[str, str] | None:
        """By name of the resource."""


class ContainerShape(Protocol):
    """A container."""

    @property
    def env(self) -> Sequence[Variable] | None:
        """Its variables."""

    @property
    def resources(self) -> Amounts | None:
        """What it asks for."""

    @property
    def volume_mounts(self) -> Sequence[Mount] | None:
        """Its mounts."""

    @property
    def restart_policy(self) -> str | None:
        """Always: an init container that is a sidecar."""


class PodShape(Protocol):
    """A pod's spec."""

    @property
    def init_containers(self) -> Sequence[ContainerShape] | None:
        """Run before the others."""

    @property
    def containers(self) -> Sequence[ContainerShape]:
        """At least one."""

    @property
    def volumes(self) -> Sequence[Volume] | None:
        """Its volumes."""
