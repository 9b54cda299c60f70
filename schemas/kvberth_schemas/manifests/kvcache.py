"""The KVCache object (orchestration.aibrix.ai/v1alpha1): both generations of its spec, and our additions.

First generation (v0.2): `replicas`, `cacheSpec`, `service.port`, `metadata.etcd.image`. Second: `cache`,
`service.ports`, `metadata.etcd.runtime`. Fields that no generation knows are kept in `model_extra` of their object,
so that they can be named; what the fields mean together is decided elsewhere.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from kvberth_schemas.manifests.base import (
    Count,
    DnsLabel,
    Json,
    Known,
    LabelKey,
    Labels,
    Port,
    Quantity,
    QuantityOrEmpty,
    Seq,
    Text,
)
from kvberth_schemas.manifests.pods import EnvVar, ImagePullPolicy, ObjectMeta, ResourceRequirements, Toleration

API_GROUP = "orchestration.aibrix.ai"
API_VERSION = f"{API_GROUP}/v1alpha1"
KIND = "KVCache"

MetadataMode = Literal["shared", "dedicated", "external", "local"]
GatePolicy = Literal["wait", "startWithoutCache"]
Seconds = Annotated[int, Field(ge=0, le=7 * 24 * 3600)]


class KVCacheMeta(ObjectMeta):
    """Metadata of a KVCache. Its name is also the name of Services, so it is a DNS label.

    What the API server writes is listed too, so that a mistyped `annotation` can be told from it.
    """

    model_config = ConfigDict(extra="allow")

    name: DnsLabel
    uid: Any = None
    generation: Any = None
    generate_name: Any = None
    resource_version: Any = None
    self_link: Any = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: Any = None
    finalizers: Any = None
    owner_references: Any = None
    managed_fields: Any = None


class ServicePort(Known):
    """One port of the cache's Service (second generation)."""

    name: str | None = None
    port: Port
    target_port: Any = None
    protocol: Literal["TCP", "UDP", "SCTP"] | None = None
    node_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    app_protocol: str | None = None


class ServiceSpec(Known):
    """The cache's Service, of both generations."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    port: Port | None = None
    node_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    ports: Seq[ServicePort] | None = None


class CacheResources(Known, ResourceRequirements):
    """Requests and limits of a cache."""

    model_config = ConfigDict(extra="allow")

    claims: Seq[Json] | None = None


class RuntimeSpec(Known):
    """How a component runs (second generation)."""

    replicas: Count | None = None
    image: Text | None = None
    image_pull_policy: ImagePullPolicy | None = None
    env: Seq[EnvVar] | None = None
    resources: CacheResources | None = None
    template: Json | None = None


class CacheSpec(Known):
    """How a cache runs (first generation)."""

    replicas: Count | None = None
    image: Text | None = None
    image_pull_policy: ImagePullPolicy | None = None
    shared_memory_size: QuantityOrEmpty | None = None
    env: Seq[EnvVar] | None = None
    memory: Quantity | None = None
    cpu: Quantity | None = None


class ExternalConnection(Known):
    """A metadata service that somebody else runs."""

    address: str | None = None
    password_secret_ref: str | None = None


class Storage(Known):
    """Disk of a metadata service (first generation)."""

    size: Quantity | None = None


class MetadataStore(Known):
    """redis or etcd, of both generations."""

    external_connection: ExternalConnection | None = None
    runtime: RuntimeSpec | None = None
    image: str | None = None
    replicas: Count | None = None
    resources: CacheResources | None = None
    storage: Storage | None = None


class MetadataSpec(Known):
    """The metadata service; `mode`, `endpoint` and `secret` are ours."""

    mode: MetadataMode | None = None
    endpoint: Text | None = None
    secret: Text | None = None
    redis: MetadataStore | None = None
    etcd: MetadataStore | None = None


class Pool(Known):
    """The caches of a KVCache on one kind of GPU node (ours)."""

    name: DnsLabel
    gpu_type: Text | None = None
    gpu_label_key: LabelKey | None = None
    node_selector: Labels | None = None
    resources: CacheResources | None = None
    replicas: Count | None = None


class PlacementSpec(Known):
    """Where caches may be (ours)."""

    node_selector: Labels | None = None
    affinity: Json | None = None
    tolerations: Seq[Toleration] | None = None
    max_removals_per_minute: Count | None = None


class BlockStore(Known):
    """Turns the transfer worker on (ours)."""

    size: Quantity


class Gate(Known):
    """Whether an engine waits for its cache, and for how long (ours)."""

    policy: GatePolicy | None = None
    timeout_seconds: Seconds | None = None


class MemorySpec(Known):
    """What of a cache's memory is left to the daemon itself (ours)."""

    reserve: Quantity | None = None
    headroom_fraction: Annotated[float, Field(ge=0, lt=1, strict=False)] | None = None


class KVCacheFields(Known):
    """Every field that `spec` has in any generation."""

    mode: str | None = None
    replicas: Count | None = None
    etcd_replicas: Count | None = None
    metadata: MetadataSpec | None = None
    service: ServiceSpec | None = None
    cache_spec: CacheSpec | None = None
    cache: RuntimeSpec | None = None
    watcher: RuntimeSpec | None = None
    pools: Seq[Pool] | None = None
    placement: PlacementSpec | None = None
    block_store: BlockStore | None = None
    gate: Gate | None = None
    linger_seconds: Seconds | None = None
    hung_restart_seconds: Annotated[Seconds, Field(ge=1)] | None = None
    memory: MemorySpec | None = None


class KVCacheManifest(Known):
    """A KVCache as its user wrote it, or as the API server gives it."""

    api_version: Literal["orchestration.aibrix.ai/v1alpha1"]
    kind: Literal["KVCache"]
    metadata: KVCacheMeta
    spec: KVCacheFields
    status: Any = None
