"""Ends exactly the pod of a cache whose next life is to begin; its DaemonSet makes the new one.

Decides nothing but what the budgets decide: a cache that answers is ended only where its pod could be evicted.
"""

from collections.abc import Iterable, Mapping

from kvberth.kube import KubeError, NotFound, Target
from kvberth.kube.resources import PODS
from kvberth.kvcache import HASH
from kvberth.placement.apply import ApplyError
from kvberth.placement.apply.kubernetes import reading
from kvberth.placement.apply.kubernetes.children import Live, Name
from kvberth.placement.apply.kubernetes.kinds import LiveSet
from kvberth.placement.apply.kubernetes.leaving import Leaving
from kvberth.placement.apply.kubernetes.render import POOL_LABEL, Child
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.memory import Held
from kvberth.placement.steps import Restart


def revisions(wanted: Iterable[Child], live: Mapping[Name, Live]) -> dict[str, str] | None:
    """Return by pool what new pods are made from.

    None while a DaemonSet is not seen as it is wanted, or its controller may still make older pods: a pod that differs
    from what was wanted for a moment is none that must begin anew.
    """
    found = {}
    for child in wanted:
        item = live.get((child.target.resource.kind, child.target.name))
        if not isinstance(item, LiveSet):
            continue
        made_from = item.metadata.annotations.get(HASH, "")
        if item.metadata.deleting or made_from != child.body["metadata"]["annotations"].get(HASH, made_from):
            return None
        if item.status.observed_generation < item.metadata.generation:
            return None
        found[item.metadata.labels.get(POOL_LABEL, "")] = made_from
    return found


async def restart(cluster: Cluster, leaving: Leaving, namespace: str, step: Restart) -> Held | None:
    """End the step's pod, if it is still there; return why it may not be ended now, None where it is done.

    Raises:
        ApplyError: the API server did not say, or did not do it.
    """
    try:
        pods = await reading.pods_on(cluster.client, namespace, step.node)
        pod = next((one for one in pods if one.metadata.uid == step.pod and not one.metadata.deleting), None)
        if pod is None:
            return None
        if step.answers and (held := await leaving.budget(namespace, step.node, pod)) is not None:
            return held
        await cluster.delete(Target(PODS, namespace, pod.metadata.name, uid=pod.metadata.uid))
    except NotFound:
        return None
    except KubeError as error:
        raise ApplyError(f"the cache on {step.node} could not be restarted: {error}") from error
    return None
