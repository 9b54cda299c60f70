"""Says what a budget's refusal of an eviction means. Pure.

Kubernetes answers 429 also for a budget that can never allow anything: one with a percentage or `maxUnavailable` over
pods of a DaemonSet, whose number it can't learn.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from kvberth.placement.memory import Held
from kvberth.placement.reasons import Reason

AGAIN: Final = timedelta(seconds=5)
MANY: Final = "more than one PodDisruptionBudget"
"""In the answer where a pod has several, which Kubernetes can't serve: no refusal, but an error."""
_NAME = re.compile(r"disruption budget ([a-z0-9.-]+)", re.IGNORECASE)
_UNUSABLE = re.compile(r"does not implement the scale subresource|found no controller", re.IGNORECASE)


def refused(node: str, said: str, budgets: dict[str, str], now: datetime) -> Held:
    """Return why a cache may not leave; `budgets` are those of the namespace, each with its own complaint or ''."""
    name = _named(said, budgets)
    complaint = budgets.get(name, "")
    if complaint or _UNUSABLE.search(said):
        why = f": {complaint}" if complaint else ""
        message = f"kept: PodDisruptionBudget {name} can't allow any eviction{why}; use an integer minAvailable"
        return Held(Reason.BUDGET_UNUSABLE, message, now + AGAIN)
    message = f"kept: PodDisruptionBudget {name} allows no eviction of the cache on {node} now"
    return Held(Reason.BUDGET_REFUSES, message, now + AGAIN)


def drain_waits(node: str, engine: str, said: str, budgets: dict[str, str]) -> str:
    """Return what a drain of a cordoned node would wait for, as the server says of an eviction of an engine there."""
    if MANY in said:
        return f"{node} is cordoned: no drain can end there: {MANY} holds engine {engine}, which Kubernetes can't serve"
    name = _named(said, budgets)
    return f"{node} is cordoned: a drain would wait for PDB {name}, which allows no eviction of engine {engine} now"


def unusable(conditions: Iterable[Mapping[str, Any]]) -> str:
    """Return why a budget can never allow anything, as its conditions say; empty for one that works."""
    for one in conditions:
        if one.get("type") == "DisruptionAllowed" and one.get("reason") == "SyncFailed":
            return str(one.get("message")) or "it can't be computed"
    return ""


def _named(said: str, budgets: dict[str, str]) -> str:
    found = _NAME.search(said)
    if found is not None:
        return found.group(1)
    broken = sorted(name for name, complaint in budgets.items() if complaint)
    return broken[0] if broken else (min(budgets) if len(budgets) == 1 else "of this namespace")
