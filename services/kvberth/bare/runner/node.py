"""What the node of this runner has: from the operator's file, else from the machine. Starts nothing."""

import os
from decimal import Decimal
from pathlib import Path

from pydantic import ValidationError

from kvberth.bare.process import procfs
from kvberth.service import ServiceError
from kvberth_schemas.events import Resources, Taint
from kvberth_schemas.manifests import Node, load_documents
from kvberth_schemas.quantity import QuantityError, parse_bytes, parse_cpu, parse_quantity
from kvberth_schemas.requests import RegisterRequest

HOSTNAME_LABEL = "kubernetes.io/hostname"
GPU_RESOURCE = "nvidia.com/gpu"


def registration(name: str, root: Path, file: Path | None) -> RegisterRequest:
    """Give what the runner announces its node with.

    Raises:
        ServiceError: the file can't be read, or is not about this node.
    """
    if file is None:
        return RegisterRequest(
            node=name,
            labels={HOSTNAME_LABEL: name},
            allocatable=_machine(),
            boot_id=procfs.boot_id(),
            root=str(root),
        )
    node = _read(name, file)
    return RegisterRequest(
        node=name,
        labels={**node.labels, HOSTNAME_LABEL: name},
        taints=tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.taints),
        allocatable=_resources(node.allocatable, file),
        unschedulable=node.unschedulable,
        boot_id=procfs.boot_id(),
        root=str(root),
    )


def _read(name: str, file: Path) -> Node:
    try:
        documents = load_documents(file.read_text(encoding="utf-8"), str(file))
        nodes = [Node.model_validate(dict(document.raw or {})) for document in documents if document.name == name]
    except (OSError, UnicodeDecodeError) as error:
        raise ServiceError(
            f"The node file {file} can't be read ({error}); name another in KVBERTH_NODE_FILE."
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ServiceError(f"The node file {file} holds no v1 Node: {field}: {first['msg']}.") from error
    if len(nodes) != 1:
        raise ServiceError(f"The node file {file} describes {len(nodes)} nodes named {name}; it must describe one.")
    return nodes[0]


def _resources(allocatable: dict[str, str], file: Path) -> Resources:
    try:
        return Resources(
            cpu_millis=int(parse_cpu(allocatable.get("cpu", "0")) * 1000),
            memory_bytes=parse_bytes(allocatable.get("memory", "0")),
            gpus=int(parse_quantity(allocatable.get(GPU_RESOURCE, "0"))),
        )
    except QuantityError as error:
        raise ServiceError(f"The node file {file}: status.allocatable: {error}.") from error


def _machine() -> Resources:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Resources(cpu_millis=int(Decimal(os.cpu_count() or 1) * 1000), memory_bytes=memory)
