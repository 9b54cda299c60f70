"""What pod_watcher and node agents would say of real objects, as the stage plays them."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from kvberth.bus import Absent, Bus, BusSettings, Row, Writer
from kvberth.kvcache.gates import read_ending
from kvberth_schemas.events import (
    Owner,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    Resources,
    SocketMount,
    SocketReadyV1,
    Toleration,
)
from kvberth_schemas.quantity import parse_quantity
from kvberth_schemas.subjects import Entity, Service, events_of

MODEL = "model.aibrix.ai/name"
OURS = "kvberth.dev/kvcache"

Json = dict[str, Any]


def role_of(pod: Json) -> PodRole | None:
    labels = pod["metadata"].get("labels", {})
    if OURS in labels:
        return PodRole.CACHE
    return PodRole.ENGINE if MODEL in labels else None


def workload_of(pod: Json, wanted: Mapping[str, int]) -> Owner | None:
    name = pod["metadata"]["labels"].get("app")
    by_set = any(one["kind"] == "StatefulSet" for one in pod["metadata"].get("ownerReferences", []))
    kind = "StatefulSet" if by_set else "Deployment"
    return Owner(kind=kind, name=name, uid=f"uid-{name}", wanted=wanted.get(name, 0)) if name else None


def pod_event(namespace: str, pod: Json, wanted: Mapping[str, int]) -> PodScheduledV1 | PodWaitingV1 | PodReadyV1:
    meta, spec = pod["metadata"], pod["spec"]
    legacy = any(
        one["name"].startswith("AIBRIX_LLM_KV_CACHE") for box in spec["containers"] for one in box.get("env", [])
    )
    common: Json = {
        "uid": meta["uid"],
        "name": meta["name"],
        "namespace": namespace,
        "resource_version": 0,
        "role": role_of(pod),
        "model": meta["labels"].get(MODEL),
        "workload": workload_of(pod, wanted),
        "kvcache": meta["labels"].get(OURS),
        "requests": requests(spec),
        "revision": meta.get("annotations", {}).get("kvberth.dev/hash"),
        "priority_class": spec.get("priorityClassName"),
        "priority": spec.get("priority"),
        "tolerations": tuple(
            Toleration(
                key=one.get("key"),
                operator=one.get("operator"),
                value=one.get("value"),
                effect=one.get("effect"),
                toleration_seconds=one.get("tolerationSeconds"),
            )
            for one in spec.get("tolerations", [])
        ),
        "sockets": tuple(
            SocketMount(host_path=volume["hostPath"]["path"], mount_path="/var/run")
            for volume in spec.get("volumes", [])
            if "hostPath" in volume
        ),
        "run_as_user": spec.get("securityContext", {}).get("runAsUser"),
        "supplemental_groups": tuple(spec.get("securityContext", {}).get("supplementalGroups", [])),
        "legacy": legacy,
        "gate": next(filter(None, map(read_ending, gate_messages(pod))), None),
        "deleting": "deletionTimestamp" in meta,
    }
    if not spec.get("nodeName"):
        conditions = pod.get("status", {}).get("conditions", [])
        why = next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "not bound yet")
        return PodWaitingV1(**common, why=why)
    return PodScheduledV1(**common, node=spec["nodeName"])


def gate_messages(pod: Json) -> list[str]:
    """The termination messages of its init containers."""
    states = [one.get("state", {}) for one in pod.get("status", {}).get("initContainerStatuses", [])]
    return [state["terminated"].get("message", "") for state in states if "terminated" in state]


def requests(spec: Json) -> Resources:
    asked = [box.get("resources", {}).get("requests", {}) for box in spec["containers"]]
    return Resources(
        cpu_millis=sum(int(parse_quantity(one.get("cpu", 0)) * 1000) for one in asked),
        memory_bytes=sum(int(parse_quantity(one.get("memory", 0))) for one in asked),
    )


def ready(namespace: str, name: str, node: str, *, incarnation: str) -> SocketReadyV1:
    return SocketReadyV1(
        cache=name,
        namespace=namespace,
        node=node,
        path=f"/var/run/vineyard-kubernetes/{namespace}/{name}/vineyard.sock",
        incarnation=incarnation,
        instance_id=0,
        version="0.24.2",
        memory_usage=0,
        memory_limit=2**26,
    )


def nothing(_: Row) -> None:
    return None


@asynccontextmanager
async def speaker(
    url: str, service: Service, node: str | None, entities: tuple[Entity, ...]
) -> AsyncIterator[tuple[Bus, Writer]]:
    settings = BusSettings(url=url, service=service, instance=f"{service}-{node}", node=node, term=int(time.time()))
    async with Bus(settings) as bus:
        writer = bus.writer([events_of(entity, node) for entity in entities], absent=Absent.GONE, gone=nothing)
        async with writer, bus.heart([writer]):
            writer.ready()
            yield bus, writer
