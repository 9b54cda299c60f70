"""What a KVCache asks for, after both generations of its manifest became one. Data only; decides nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from kvberth_schemas.manifests import Complaint, Toleration

DEFAULT_GPU_LABEL_KEY: Final = "machine.cluster.vke.volcengine.com/gpu-name"
DEFAULT_IMAGE: Final = "aibrix/kvcache:20241120"
DEFAULT_SERVICE_PORT: Final = 9600
DEFAULT_LINGER_S: Final = 300
DEFAULT_HUNG_RESTART_S: Final = 30
DEFAULT_MAX_REMOVALS_PER_MINUTE: Final = 30

GatePolicy = Literal["wait", "startWithoutCache"]
MetadataMode = Literal["shared", "dedicated", "external", "local"]


@dataclass(frozen=True, slots=True)
class GateSpec:
    """What the KVCache says about waiting engines; None where it says nothing and the gate's own defaults hold."""

    policy: GatePolicy | None = None
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """Where caches may be."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    max_removals_per_minute: int = DEFAULT_MAX_REMOVALS_PER_MINUTE


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What one cache may use: cpu in cores, the memory limit of its pod, the memory that vineyardd gives out of it.

    With `block_bytes` a transfer worker runs beside vineyardd, and both share the cpu and the memory.
    """

    cpu: Decimal
    memory_bytes: int
    size_bytes: int
    block_bytes: int = 0
    """What the store of the transfer worker holds; 0: there is none."""
    worker_bytes: int = 0
    """How much of the memory is the transfer worker's, which touches every page of the store."""
    memory_field: str = field(default="spec.cacheSpec.memory", compare=False)
    """Where the manifest names (or could name) the memory."""
    cpu_field: str = field(default="spec.cacheSpec.cpu", compare=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable of the caches: a value, or the `valueFrom` of Kubernetes as it was written."""

    name: str
    value: str = ""
    value_from: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """The caches on one kind of GPU node."""

    name: str
    on: bool
    gpu_type: str | None
    gpu_label_key: str
    node_selector: tuple[tuple[str, str], ...]
    size: CacheSize


@dataclass(frozen=True, slots=True)
class KVCacheSpec:
    """One KVCache. With `complaints` it is Accepted=False: nothing of it may be added, removed or restarted."""

    namespace: str
    name: str
    complaints: tuple[Complaint, ...]
    defaults_taken: tuple[str, ...]
    """Sentences for status: what was chosen because the manifest names nothing. Empty when not accepted."""
    notes: tuple[str, ...]
    """Sentences for the message of Accepted=True: what is known and has no effect. Empty when not accepted."""
    backend: str
    paused: bool
    replicas: int
    workload: str | None
    gpu_type: str | None
    gpu_label_key: str
    anti_affinity: bool
    image: str
    image_pull_policy: str
    env: tuple[Variable, ...]
    size: CacheSize
    service_port: int
    metadata_mode: MetadataMode
    metadata_endpoint: str | None
    pools: tuple[PoolSpec, ...]
    placement: PlacementSpec
    linger_s: int
    hung_restart_s: int
    gate: GateSpec

    @property
    def accepted(self) -> bool:
        """Whether the manifest can be acted on."""
        return not self.complaints

    @property
    def on(self) -> bool:
        """Whether the user wants caches at all (`replicas` above 0); how many follows from the engines."""
        return self.replicas > 0

    @property
    def cpu(self) -> Decimal:
        """Cores of one cache."""
        return self.size.cpu

    @property
    def memory_bytes(self) -> int:
        """Memory limit of one cache's container."""
        return self.size.memory_bytes

    @property
    def size_bytes(self) -> int:
        """What vineyardd gets as `--size`."""
        return self.size.size_bytes
