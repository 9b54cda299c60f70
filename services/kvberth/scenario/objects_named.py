"""Finds KVCaches and workloads that a scenario speaks of but never applies: a rule about a misspelt one holds for ever.

A name counts for its kind and namespace only. Reads the manifests that the scenario applies; sends nothing.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel

from kvberth.scenario import manifests
from kvberth.scenario.format import Scenario, Step
from kvberth.scenario.format.events import EventMatch
from kvberth.scenario.format.verbs import FileAct, Peer

_KVCACHE: Final = "KVCache"
_WORKLOAD: Final = "workload"
_KINDS: Final = {"KVCache": _KVCACHE, "Deployment": _WORKLOAD, "StatefulSet": _WORKLOAD}
_KEYS: Final = {"kvcache": _KVCACHE, "workload": _WORKLOAD}
_ABOUT_KVCACHES: Final = ("kvcache.", "socket.", "cache.", "transfer.", "want.cache", "want.dir")
"""How types of messages begin whose `name` is a KVCache's."""


class Named(NamedTuple):
    """A name, and what bears it."""

    kind: str
    namespace: str | None
    """None: any."""
    name: str


def faults(scenario: Scenario, folder: Path) -> list[str]:
    """Give a sentence for each name that is used and never there; none where a manifest can't be read."""
    try:
        known = _applied(scenario, folder) | _made(scenario)
    except (OSError, ValueError):  # its `apply` step fails with the reason
        return []
    # What is said on the bus by the scenario itself may be about anything.
    said = " ".join(str(step.publish.model_dump()) for _, step in scenario.all_steps() if step.publish)
    return [
        f"step {number} {_sentence(one, known)}"
        for number, step in scenario.all_steps()
        for one in dict.fromkeys(_named(step))
        if not _is_known(one, known) and one.name not in said
    ]


def _is_known(one: Named, known: set[Named]) -> bool:
    return one in known or (one.namespace is None and any((k.kind, k.name) == (one.kind, one.name) for k in known))


def _sentence(one: Named, known: set[Named]) -> str:
    there = [other for other in known if one.namespace in {None, other.namespace}]
    right = sorted({other.name for other in there if other.kind == one.kind})
    other_kind = next((other.kind for other in there if other.name == one.name), None)
    elsewhere = sorted(str(other.namespace) for other in known if (other.kind, other.name) == (one.kind, one.name))
    close = get_close_matches(one.name, right, n=1)
    where = f" in the namespace {one.namespace}" if one.namespace else ""
    notes = f" (there is a {other_kind} of that name)" if other_kind else ""
    notes += f" (it does in {', '.join(elsewhere)})" if elsewhere else ""
    hint = f"; did you mean '{close[0]}'?" if close else ""
    listed = f" (applied{' there' if where else ''}: {', '.join(right) or 'none'})" if not notes and not hint else ""
    return f"names the {one.kind} '{one.name}', which this scenario never applies{where}{notes}{hint}{listed}"


def _applied(scenario: Scenario, folder: Path) -> set[Named]:
    applies = [step.apply for _, step in scenario.all_steps() if step.apply]
    return {
        Named(_KINDS[kind], namespace, name)
        for apply in applies
        for _, text in manifests.texts(apply, folder, None)
        for kind, namespace, name in manifests.objects_of(text, apply.namespace)
        if kind in _KINDS
    }


def _made(scenario: Scenario) -> set[Named]:
    """Give the KVCaches whose directories the scenario itself makes."""
    made: set[Named] = set()
    for _, step in scenario.all_steps():
        if isinstance(step.value, Peer):
            made.add(Named(_KVCACHE, step.value.namespace, step.value.kvcache))
        if isinstance(step.value, FileAct):
            parts = Path(step.value.value).parts[:2]
            made |= {Named(_KVCACHE, *parts)} if len(parts) == 2 else set()  # <namespace>/<kvcache>
    return made


def _named(value: object) -> Iterator[Named]:
    if isinstance(value, list):
        for item in value:
            yield from _named(item)
    if not isinstance(value, BaseModel) or getattr(value, "needs", None) or getattr(value, "requires", None):
        return  # what is skipped may be about objects of another backend
    if isinstance(value, EventMatch):
        yield from _in_message(value)
    for name in type(value).model_fields:
        inner = getattr(value, name)
        if name in _KEYS and isinstance(inner, str):
            yield Named(_KEYS[name], getattr(value, "namespace", None), inner)
        elif name != "steps" or isinstance(value, Step):
            yield from _named(inner)


def _in_message(match: EventMatch) -> Iterator[Named]:
    if match.name is not None and match.type is not None and match.type.startswith(_ABOUT_KVCACHES):
        yield Named(_KVCACHE, match.namespace, match.name)
    for field in ("cache", "kvcache"):
        if isinstance(name := match.fields.get(field), str):
            yield Named(_KVCACHE, match.namespace, name)
