"""What a KVCache and an engine say: read, judged and named. A library of pure functions, without I/O."""

from kvberth.kvcache.annotations import PAUSED, WORKLOAD
from kvberth.kvcache.belongs import Assignment, Claim, Engine, Reason, Rival, assign, node_label_complaint, rivals
from kvberth.kvcache.depth import depth_complaint
from kvberth.kvcache.door import door_complaints, kind_of, node_complaints
from kvberth.kvcache.engines import (
    LEGACY_PREFIX,
    MODEL_LABEL,
    as_resources,
    engine_container,
    env_names,
    is_engine,
    is_legacy,
    mistyped_model_label,
    model_of,
    requested_resources,
    socket_host_paths,
)
from kvberth.kvcache.marks import HASH, KVCACHE_LABEL
from kvberth.kvcache.names import cache_set_name, children, etcd_service_name, name_complaints, rpc_service_name
from kvberth.kvcache.normalise import normalise
from kvberth.kvcache.paths import (
    HOST_PREFIX,
    MAX_SOCKET_PATH,
    SOCKET_GROUP,
    SOCKET_NAME,
    host_directory,
    kvcache_of_host_path,
    map_host_path,
    socket_path,
    socket_path_complaint,
)
from kvberth.kvcache.spec import CacheSize, GateSpec, KVCacheSpec, PlacementSpec, PoolSpec, Variable
from kvberth.kvcache.workload_fields import workload_strays
from kvberth_schemas.manifests import Complaint

__all__ = [
    "HASH",
    "HOST_PREFIX",
    "KVCACHE_LABEL",
    "LEGACY_PREFIX",
    "MAX_SOCKET_PATH",
    "MODEL_LABEL",
    "PAUSED",
    "SOCKET_GROUP",
    "SOCKET_NAME",
    "WORKLOAD",
    "Assignment",
    "CacheSize",
    "Claim",
    "Complaint",
    "Engine",
    "GateSpec",
    "KVCacheSpec",
    "PlacementSpec",
    "PoolSpec",
    "Reason",
    "Rival",
    "Variable",
    "as_resources",
    "assign",
    "cache_set_name",
    "children",
    "depth_complaint",
    "door_complaints",
    "engine_container",
    "env_names",
    "etcd_service_name",
    "host_directory",
    "is_engine",
    "is_legacy",
    "kind_of",
    "kvcache_of_host_path",
    "map_host_path",
    "mistyped_model_label",
    "model_of",
    "name_complaints",
    "node_complaints",
    "node_label_complaint",
    "normalise",
    "requested_resources",
    "rivals",
    "rpc_service_name",
    "socket_host_paths",
    "socket_path",
    "socket_path_complaint",
    "workload_strays",
]
