"""Asks the cluster itself, right before a cache leaves a node: does an engine still use it, may its pod go."""

from collections.abc import Callable
from datetime import datetime

from kvberth.kube import KubeError, NotFound, ServerTrouble, Target
from kvberth.kube.resources import PODS
from kvberth.kvcache import KVCACHE_LABEL, kvcache_of_host_path
from kvberth.placement.apply import ApplyError
from kvberth.placement.apply.kubernetes import reading
from kvberth.placement.apply.kubernetes.budgets import AGAIN, MANY, refused
from kvberth.placement.apply.kubernetes.kinds import LivePod
from kvberth.placement.apply.kubernetes.writing import Cluster
from kvberth.placement.memory import Held
from kvberth.placement.reasons import Reason
from kvberth.placement.steps import Remove
from kvberth_schemas.wants import Why


class Leaving:
    """The questions; each answer is one of this moment."""

    def __init__(self, cluster: Cluster, now: Callable[[], datetime]) -> None:
        """Ask through that cluster."""
        self._cluster, self._now = cluster, now

    async def forbidden(self, namespace: str, step: Remove) -> Held | None:
        """Return why a cache may not leave its node now; None where it may.

        Raises:
            ApplyError: the API server did not say.
        """
        try:
            pods = await reading.pods_on(self._cluster.client, namespace, step.node)
            engine = next((pod for pod in pods if _uses(pod, namespace, step.kvcache)), None)
            if engine is not None and step.why is not Why.USER and step.reason is not Reason.SWAPPED_FOR_QUOTA:
                message = f"kept: pod {engine.metadata.name} on {step.node} has its directory"
                return Held(Reason.ENGINE_FOUND, message, self._now() + AGAIN)
            for pod in pods:
                if pod.metadata.labels.get(KVCACHE_LABEL) == step.kvcache and not pod.metadata.deleting:
                    held = await self.budget(namespace, step.node, pod)
                    if held is not None:
                        return held
        except KubeError as error:
            raise ApplyError(
                f"the cache on {step.node} stays, since it can't be asked whether it may go: {error}"
            ) from error
        return None

    async def budget(self, namespace: str, node: str, pod: LivePod) -> Held | None:
        """Return which budget keeps a pod from being ended now; None where none does. Raises KubeError, ApplyError."""
        target = Target(PODS, namespace, pod.metadata.name, uid=pod.metadata.uid)
        try:
            answer = await self._cluster.may_evict(target)
        except NotFound:
            return None
        except ServerTrouble as error:
            if MANY not in str(error):
                raise
            message = f"kept: more than one PodDisruptionBudget holds the cache on {node}, which Kubernetes can't serve"
            return Held(Reason.BUDGET_UNUSABLE, message, self._now() + AGAIN)
        if answer.allowed:
            return None
        budgets = await reading.budgets(self._cluster.client, namespace)
        return refused(node, answer.message, budgets, self._now())


def _uses(pod: LivePod, namespace: str, kvcache: str) -> bool:
    mounted = any(kvcache_of_host_path(path) == (namespace, kvcache) for path in pod.host_paths)
    return mounted and not pod.ended and KVCACHE_LABEL not in pod.metadata.labels
