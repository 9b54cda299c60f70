"""What an API server refuses in a workload beyond types and ranges: parts that don't fit each other. Pure."""

from collections.abc import Iterator, Sequence

from kvberth_schemas.manifests import Complaint, Container, PodSpec, Workload
from kvberth_schemas.quantity import parse_quantity

_GPU = "nvidia.com/gpu"
_POD = "spec.template.spec"


def workload_faults(workload: Workload) -> Iterator[Complaint]:
    """Yield a selector that misses its own template, names given twice, and mounts of volumes that are not there."""
    yield from _selector(workload)
    pod = workload.spec.template.spec
    yield from _twice(f"{_POD}.volumes", [volume.name for volume in pod.volumes or ()])
    containers = [*(pod.init_containers or ()), *pod.containers]
    first = len(pod.init_containers or ())
    paths = [
        f"{_POD}.initContainers[{index}]" if index < first else f"{_POD}.containers[{index - first}]"
        for index in range(len(containers))
    ]
    seen: set[str] = set()
    for path, container in zip(paths, containers, strict=True):
        if container.name in seen:
            yield Complaint(
                f"{path}.name", f"{container.name} is another container's name", "give it a name of its own"
            )
        seen.add(container.name)
        yield from _gpus(path, container)
        yield from _mounts(path, container, _volumes(workload, pod))


def _selector(workload: Workload) -> Iterator[Complaint]:
    selector, labels = workload.spec.selector, workload.spec.template.labels
    if selector.is_empty:
        yield Complaint("spec.selector", "is empty", "name labels that the template gives its pods")
    elif not selector.matches(labels):
        exact = selector.match_labels or {}
        missed = [f"{key}={value}" for key, value in exact.items() if labels.get(key) != value]
        found = ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"
        wanted = ", ".join(missed) or "what its matchExpressions say"
        problem = f"selects {wanted}, but the template's pods carry {found}"
        yield Complaint("spec.selector", problem, "make the selector and spec.template.metadata.labels agree")


def _volumes(workload: Workload, pod: PodSpec) -> list[str]:
    claimed = [claim.metadata.name for claim in workload.spec.volume_claim_templates or ()]
    return [*(volume.name for volume in pod.volumes or ()), *claimed]


def _mounts(path: str, container: Container, volumes: Sequence[str]) -> Iterator[Complaint]:
    for index, mount in enumerate(container.volume_mounts or ()):
        if mount.name not in volumes:
            there = f"one of {', '.join(volumes)}" if volumes else f"a volume of {_POD}.volumes"
            problem = f"there is no volume {mount.name}"
            yield Complaint(f"{path}.volumeMounts[{index}].name", problem, f"name {there}")


def _gpus(path: str, container: Container) -> Iterator[Complaint]:
    needs = container.resources
    for part, amounts in (("limits", needs and needs.limits), ("requests", needs and needs.requests)):
        asked = (amounts or {}).get(_GPU)
        if asked is not None and parse_quantity(asked) % 1:
            problem = f"asks for {asked} GPUs, and a GPU is given whole"
            yield Complaint(f"{path}.resources.{part}[{_GPU}]", problem, "write a whole number")


def _twice(path: str, names: Sequence[str]) -> Iterator[Complaint]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Complaint(f"{path}[{index}].name", f"{name} stands twice", "keep one of them")
