"""What the pod watcher can be told from outside."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from kvberth.kube import ClientSettings, LeaseSettings, ReflectorSettings
from kvberth.service import ServiceSettings

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def _names(value: object) -> object:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


def _own_namespace() -> str:
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or "kvberth"
    except OSError:
        return "kvberth"


class PodWatcherSettings(ServiceSettings):
    """The settings of all services, and what of which cluster is watched."""

    kubeconfig: Path | None = None
    """Way to the API server. Default: the pod's ServiceAccount, else KUBECONFIG or ~/.kube/config."""

    context: str | None = None
    """Context of the kubeconfig. Default: its current one."""

    namespaces: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = ()
    """Namespaces whose pods and KVCaches are watched, separated by commas. Default: all. Others' pods don't count."""

    lease_namespace: str = Field(default_factory=_own_namespace, min_length=1)
    """Namespace of the Lease. Default: the pod's own, else kvberth."""

    lease_name: str = Field("kvberth-pod-watcher", min_length=1)
    """Name of the Lease that the active replica holds. Default kvberth-pod-watcher."""

    lease_duration_s: int = Field(15, ge=3, le=300)
    """Seconds after the last renewal that another replica waits before it takes over. Default 15."""

    lease_retry_s: float = Field(1.0, ge=0.1, le=60)
    """Seconds between two looks at the Lease, and two renewals. Default 1: so soon a stopped one is replaced."""

    silence_s: float = Field(70.0, ge=1, le=600)
    """Seconds of silence after which a watch is taken for dead. Default 70: bookmarks come every 60."""

    resync_s: float = Field(600.0, gt=0, le=86400)
    """Seconds after which every object is looked at again. Default 600; the API server is not asked for it."""

    coalesce_s: float = Field(0.005, ge=0, le=1)
    """Seconds that changes are collected after others were said. Default 0.005."""

    def client(self) -> ClientSettings:
        """How the API server is asked."""
        return ClientSettings(kubeconfig=self.kubeconfig, context=self.context, user_agent="kvberth-pod-watcher")

    def reflector(self) -> ReflectorSettings:
        """How patient the watches are."""
        return ReflectorSettings(silence_s=self.silence_s, resync_s=self.resync_s)

    def lease(self) -> LeaseSettings:
        """The Lease; work is cancelled after two thirds of its duration without a renewal."""
        return LeaseSettings(
            namespace=self.lease_namespace,
            name=self.lease_name,
            identity=self.instance,
            duration_s=self.lease_duration_s,
            renew_deadline_s=self.lease_duration_s * 2 / 3,
            retry_s=min(self.lease_retry_s, self.lease_duration_s / 3),
            look_s=min(self.lease_retry_s, self.lease_duration_s / 3),
            stop_s=self.lease_duration_s / 5,
        )
