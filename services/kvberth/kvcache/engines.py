"""What a pod says about an engine: its model, whether it is legacy, which sockets it mounts, what it requests. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from kvberth.kvcache.paths import kvcache_of_host_path
from kvberth.kvcache.podspec import ContainerShape, PodShape
from kvberth_schemas.events import Resources
from kvberth_schemas.manifests import Container, PodSpec
from kvberth_schemas.quantity import parse_quantity

MODEL_LABEL: Final = "model.aibrix.ai/name"
LEGACY_PREFIX: Final = "AIBRIX_LLM_KV_CACHE"


def model_of(labels: Mapping[str, str]) -> str | None:
    """Return the model that a pod serves, None for a pod that is no engine."""
    return labels.get(MODEL_LABEL) or None


def mistyped_model_label(labels: Mapping[str, str]) -> str | None:
    """Return the label that was probably meant to be the model label, where there is none."""
    if MODEL_LABEL in labels:
        return None
    return next((key for key in sorted(labels) if _alike(key)), None)


def is_engine(labels: Mapping[str, str]) -> bool:
    """Tell whether a pod is an engine: it carries the model label."""
    return model_of(labels) is not None


def is_legacy(env: Iterable[str]) -> bool:
    """Tell from the names of its variables whether an engine talks to vineyardd itself; their values don't count."""
    return any(name.startswith(LEGACY_PREFIX) for name in env)


def env_names(pod: PodShape) -> tuple[str, ...]:
    """Return the names of all variables of a pod's containers."""
    return tuple(variable.name for container in pod.containers for variable in container.env or ())


def engine_container(pod: PodSpec) -> Container:
    """Return the container that is the engine: the one that mounts a cache's directory, else the first."""
    volumes = _cache_volumes(pod)
    mounting = (item for item in pod.containers if any(mount.name in volumes for mount in item.volume_mounts or ()))
    return next(mounting, pod.containers[0])


def socket_host_paths(pod: PodShape) -> tuple[tuple[str, str], ...]:
    """Return (host path, mount path) of every cache directory that the pod's containers mount, each once, in order."""
    volumes = _cache_volumes(pod)
    found = {
        (_joined(volumes[mount.name], mount.sub_path), mount.mount_path): None
        for container in pod.containers
        for mount in container.volume_mounts or ()
        if mount.name in volumes
    }
    return tuple(found)


def requested_resources(pod: PodShape) -> dict[str, Decimal]:
    """Return what the scheduler counts for a pod, by resource name.

    The larger of the containers' sum and of the largest moment while init containers run; an init container with
    restartPolicy Always (a sidecar) runs on beside all later ones. A container's limit stands in for its request.
    """
    sidecars: dict[str, Decimal] = {}
    starting: dict[str, Decimal] = {}
    for container in pod.init_containers or ():
        own = _requests(container)
        if container.restart_policy == "Always":
            sidecars = _sum(sidecars, own)
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, _sum(sidecars, own))
    running = sidecars
    for container in pod.containers:
        running = _sum(running, _requests(container))
    return _largest(running, starting)


def as_resources(amounts: Mapping[str, Decimal]) -> Resources:
    """Return amounts by resource name as whole units, rounded up as the scheduler counts them; every `…/gpu` is one."""
    zero = Decimal(0)
    return Resources(
        cpu_millis=_ceiling(amounts.get("cpu", zero) * 1000),
        memory_bytes=_ceiling(amounts.get("memory", zero)),
        gpus=sum(_ceiling(amount) for name, amount in amounts.items() if name.endswith("/gpu")),
    )


def _ceiling(amount: Decimal) -> int:
    return -int(-amount // 1)


def _alike(key: str) -> bool:
    """Whether both halves of a label's key resemble ours; other labels of the same domain don't."""
    return all(
        difflib.SequenceMatcher(None, mine[:253].lower(), own).ratio() >= 0.7
        for mine, own in zip(key.rpartition("/")[::2], MODEL_LABEL.rpartition("/")[::2], strict=True)
    )


def _cache_volumes(pod: PodShape) -> dict[str, str]:
    return {
        volume.name: volume.host_path.path
        for volume in pod.volumes or ()
        if volume.host_path is not None and kvcache_of_host_path(volume.host_path.path) is not None
    }


def _joined(host_path: str, sub_path: str | None) -> str:
    return f"{host_path.rstrip('/')}/{sub_path.strip('/')}" if sub_path else host_path


def _requests(container: ContainerShape) -> dict[str, Decimal]:
    resources = container.resources
    if resources is None:
        return {}
    merged = {**(resources.limits or {}), **(resources.requests or {})}
    return {name: parse_quantity(text) for name, text in merged.items()}


def _names(first: Mapping[str, Decimal], second: Mapping[str, Decimal]) -> Iterator[str]:
    yield from dict.fromkeys((*first, *second))


def _sum(first: Mapping[str, Decimal], second: Mapping[str, Decimal]) -> dict[str, Decimal]:
    zero = Decimal(0)
    return {name: first.get(name, zero) + second.get(name, zero) for name in _names(first, second)}


def _largest(first: Mapping[str, Decimal], second: Mapping[str, Decimal]) -> dict[str, Decimal]:
    zero = Decimal(0)
    return {name: max(first.get(name, zero), second.get(name, zero)) for name in _names(first, second)}
