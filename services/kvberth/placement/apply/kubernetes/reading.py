"""What placement reads live, right before it acts on it: workloads, pods of a node, budgets, words of refusals.

Each read is one request or one list, with the client's deadline; nothing is remembered.
"""

from datetime import UTC, datetime
from typing import Any

from kvberth.kube import Client, Entry, KubeError, Selection, Unreadable, get, list_all
from kvberth.placement.apply import ApplyError
from kvberth.placement.apply.kubernetes.budgets import unusable
from kvberth.placement.apply.kubernetes.kinds import BUDGET, EVENT, KVCACHE, OWNERS, POD, LiveKVCache, LivePod
from kvberth.placement.snapshot import LiveWorkload
from kvberth.placement.states import WorkloadKey

_FAILED = "FailedCreate"


async def workload(client: Client, namespace: str, key: WorkloadKey) -> LiveWorkload:
    """Read how many pods a Deployment or StatefulSet wants, and how many are bound and stay.

    Raises:
        ApplyError: the API server did not say.
    """
    kind, name = key
    try:
        found = await get(client, OWNERS[kind], namespace, name)
        if found is None:
            return LiveWorkload(found=False, wanted=0, bound=0)
        owner = _readable(found)
        labels = selector(owner.spec.selector)
        if labels is None:
            raise ApplyError(f"{kind} {namespace}/{name} selects its pods in a way that is not understood")
        pods = await _pods(client, Selection(namespace=namespace, labels=labels))
    except KubeError as error:
        raise ApplyError(str(error)) from error
    bound = sum(1 for pod in pods if pod.spec.node_name and not pod.metadata.deleting and not pod.ended)
    return LiveWorkload(found=True, wanted=owner.wanted, bound=bound)


async def pods_on(client: Client, namespace: str, node: str) -> list[LivePod]:
    """Read a namespace's pods on a node. Raises KubeError, ApplyError."""
    return await _pods(client, Selection(namespace=namespace, fields=f"spec.nodeName={node}"))


async def image_of(client: Client, namespace: str, pod: str) -> str:
    """Read which image a pod's first container has; '' where there is no such pod. Raises KubeError, ApplyError."""
    pods = await _pods(client, Selection(namespace=namespace, fields=f"metadata.name={pod}"))
    return next((one.image for found in pods for one in found.spec.containers[:1]), "")


async def budgets(client: Client, namespace: str) -> dict[str, str]:
    """Read the budgets of a namespace: by name, why one can't work ('' where it can). Raises KubeError, ApplyError."""
    _, found = await list_all(client, BUDGET, Selection(namespace=namespace))
    return {item.metadata.name: unusable(item.status.conditions) for item in map(_readable, found)}


async def creation_failure(client: Client, namespace: str, uid: str) -> str | None:
    """Read why a DaemonSet's newest pod could not be made, as its controller says it. Raises KubeError."""
    chosen = f"involvedObject.uid={uid},reason={_FAILED}"
    _, found = await list_all(client, EVENT, Selection(namespace=namespace, fields=chosen))
    events = [item.value for item in found if isinstance(item, Entry)]
    newest = max(events, key=lambda event: event.at or datetime.min.replace(tzinfo=UTC), default=None)
    return newest.message if newest is not None else None


async def kvcache(client: Client, namespace: str, name: str) -> LiveKVCache | None:
    """Read a KVCache; None where there is none. Raises KubeError, ApplyError."""
    found = await get(client, KVCACHE, namespace, name)
    return None if found is None else _readable(found)


def selector(found: dict[str, Any]) -> str | None:
    """Return a label selector as the API takes it in a query; None for an operator that is not known."""
    parts = [f"{key}={value}" for key, value in sorted((found.get("matchLabels") or {}).items())]
    for one in found.get("matchExpressions") or []:
        key, operator, values = one.get("key"), one.get("operator"), ",".join(one.get("values") or [])
        texts = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": f"{key}",
            "DoesNotExist": f"!{key}",
        }
        if operator not in texts:
            return None
        parts.append(texts[operator])
    return ",".join(parts) or None


async def _pods(client: Client, selection: Selection) -> list[LivePod]:
    _, found = await list_all(client, POD, selection)
    return [_readable(item) for item in found]


def _readable(item: "Entry[Any] | Unreadable") -> Any:  # noqa: ANN401 -- whatever its kind keeps
    if isinstance(item, Unreadable):
        raise ApplyError(f"{item.key} can't be read: {item.why}")
    return item.value
