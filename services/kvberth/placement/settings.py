"""What placement can be told from outside."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from kvberth.service import ServiceSettings


class PlacementSettings(ServiceSettings):
    """The settings of all services, and how placement paces itself."""

    backend: Literal["bare", "kubernetes"] = "bare"
    """What runs the caches: processes on plain machines, or Kubernetes. Default bare."""

    nats_replicas: int = Field(1, ge=1, le=5)
    """On how many servers of a NATS cluster each stream is kept. Default 1: what it loses, its writers rebuild."""

    coalesce_s: float = Field(0.005, ge=0, le=1)
    """Seconds that changes are collected before one plan is made for all of them. Default 0.005."""

    recheck_s: float = Field(30.0, gt=0, le=600)
    """Seconds after which everything is planned again although nothing changed. Default 30."""

    kubeconfig: Path | None = None
    """Kubernetes: the file that names the API server. Default: the pod's own account, else kubectl's file."""

    lease_namespace: str = Field("kvberth", min_length=1)
    """Kubernetes: the namespace of the Lease `kvberth-placement`. Default kvberth, as installed."""

    fence: bool = True
    """Kubernetes: begin only when the API server refuses writes of a deposed placement. Default true."""

    transfer_image: str | None = Field(None, min_length=1)
    """Kubernetes: image of the transfer workers in cache pods. Default: that of placement's own pod."""

    transfer_nats_url: str | None = Field(None, min_length=1)
    """Kubernetes: URL of a NATS that transfer workers, in users' namespaces, may say things to. Default none."""

    rpc_traffic_policy: Literal["Local", "Cluster"] = "Local"
    """Kubernetes: internalTrafficPolicy of the Services for legacy engines. Default Local: the node's own cache."""
