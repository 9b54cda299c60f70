"""Finds KVCaches and workloads that a scenario speaks of but never applies: a rule about a misspelt one holds for ever.

Reads the manifests that the scenario applies; sends nothing.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel

from kvberth.scenario import manifests
from kvberth.scenario.format import Scenario, Step
from kvberth.scenario.format.verbs import FileAct, Peer


def faults(scenario: Scenario, folder: Path) -> list[str]:
    """Give a sentence for each name that is used and never there; none where a manifest can't be read."""
    try:
        known = _applied(scenario, folder) | _made(scenario)
    except (OSError, ValueError):  # its `apply` step fails with the reason
        return []
    # What is said on the bus by the scenario itself may be about anything.
    said = " ".join(str(step.publish.model_dump()) for _, step in scenario.all_steps() if step.publish)
    found = []
    for number, step in scenario.all_steps():
        for kind, name in dict.fromkeys(_named(step)):
            if name not in known and name not in said:
                close = get_close_matches(name, sorted(known), n=1)
                hint = (
                    f"; did you mean '{close[0]}'?"
                    if close
                    else f" (applied are: {', '.join(sorted(known)) or 'none'})"
                )
                found.append(f"step {number} names the {kind} '{name}', which this scenario never applies{hint}")
    return found


def _applied(scenario: Scenario, folder: Path) -> set[str]:
    applies = [step.apply for _, step in scenario.all_steps() if step.apply]
    texts = [text for apply in applies for _, text in manifests.texts(apply, folder, None)]
    return {name for text in texts for _, _, name in manifests.objects_of(text, "default")}


def _made(scenario: Scenario) -> set[str]:
    """Give the names of cache directories that the scenario itself makes."""
    names: set[str] = set()
    for _, step in scenario.all_steps():
        if isinstance(step.value, Peer):
            names.add(step.value.kvcache)
        if isinstance(step.value, FileAct):
            names |= set(Path(step.value.value).parts)
    return names


def _named(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _named(item)
    if not isinstance(value, BaseModel) or getattr(value, "needs", None) or getattr(value, "requires", None):
        return  # what is skipped may be about objects of another backend
    for name in type(value).model_fields:
        inner = getattr(value, name)
        if name in {"kvcache", "workload"} and isinstance(inner, str):
            yield {"kvcache": "KVCache"}.get(name, name), inner
        elif name != "steps" or isinstance(value, Step):
            yield from _named(inner)
