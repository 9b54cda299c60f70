"""Placement writes when something is to be done, and otherwise nothing."""

from pathlib import Path

from kube.placement.stage import Stage, placement
from kvberth.placement.apply.kubernetes.leading import USER_AGENT
from support.waiting import until

KVCACHES = 50


async def test_fifty_unchanged_kvcaches_are_written_to_by_no_later_life(world: Stage, tmp_path: Path) -> None:
    a, b, c = world.nodes
    await world.cordon(b, c)
    for at in range(KVCACHES):
        await world.kvcache(f"kv-{at}", workload=f"llama-{at}")
        await world.engines(name=f"llama-{at}", model=f"llama-{at}")
    async with placement(world, tmp_path / "one"):
        for at in range(KVCACHES):
            await world.serving(a, name=f"kv-{at}", timeout_s=60)
    before, (term,) = len(_writes(world)), _terms(world)
    assert before >= 2 * KVCACHES
    async with placement(world, tmp_path / "two", recheck_s=0.5):
        await until(lambda: _terms(world) == {term + 1}, within_s=60)  # each was planned and said by the next life
        await world.age(3)  # several times everything is planned again
    assert _writes(world)[before:] == []


def _terms(world: Stage) -> set[int]:
    found = [world.bus_status(f"kv-{at}") for at in range(KVCACHES)]
    return {status.term if status is not None else 0 for status in found}


def _writes(world: Stage) -> list[str]:
    """Everything but the Lease that placement wrote in this namespace."""
    found = world.plane.writes(USER_AGENT)
    refs = [(one["verb"], one.get("objectRef", {})) for one in found]
    return [
        f"{verb} {ref['resource']} {ref.get('name')} {ref.get('subresource', '')}"
        for verb, ref in refs
        if ref.get("namespace") == world.namespace and ref.get("resource") != "leases"
    ]
