"""What the log of a KVCache says of a step. Pure."""

from kvberth.placement.steps import AnyStep, Finish, Forget, Place
from kvberth_schemas.events import CacheMovedV1, CachePlacedV1, CacheRemovedV1

LogEvent = CachePlacedV1 | CacheMovedV1 | CacheRemovedV1


def log_event(namespace: str, step: AnyStep, plan: str) -> LogEvent | None:
    """Return the entry; None for a removal, which is told when it is done, and for directories without a cache."""
    common = {"cache": step.kvcache, "namespace": namespace, "message": step.message, "plan": plan}
    if isinstance(step, Place):
        return CachePlacedV1.model_validate({**common, "to": step.node, "reason": step.reason.value})
    if isinstance(step, Finish) and step.moved_to is not None:
        return CacheMovedV1.model_validate({**common, "origin": step.node, "to": step.moved_to})
    if isinstance(step, Finish | Forget) and step.cache:
        return CacheRemovedV1.model_validate({**common, "origin": step.node, "reason": step.reason.value})
    return None
