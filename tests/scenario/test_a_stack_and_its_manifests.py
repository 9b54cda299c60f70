"""A stack loses its `up`, a manifest is wrong, a KVCache goes and comes back: the rest stays as it is."""

from kvberth_schemas.events import ProcessRole
from kvberth_schemas.requests import Outcome
from scenario.world import KVCACHE, MANIFEST, REPOSITORY, World, command, leftovers, processes_of

BROKEN = REPOSITORY / "tests" / "manifests" / "M10-broken-quantities.yaml"


async def test_down_leaves_nothing_of_a_stack_whose_up_was_killed(two_nodes: World) -> None:
    await two_nodes.start_engine()
    two_nodes.up.kill()
    await two_nodes.up.wait()
    assert len(processes_of(two_nodes.layout)) > 8, "the killed 'up' took its services with it; nothing is tested"
    down = await command(two_nodes.layout.state, "down")
    assert await down.wait() == 0
    assert leftovers(two_nodes.layout) == []


async def test_a_broken_manifest_is_refused_by_field_and_disturbs_nothing(two_nodes: World) -> None:
    await two_nodes.start_engine()
    lives = two_nodes.running_lives()
    reply = await two_nodes.apply(BROKEN)
    refused = {result.name: result for result in reply.results if result.outcome is Outcome.REFUSED}
    assert {name for name in refused if not name.startswith("bad-")} == set()
    assert "spec.cacheSpec.memory" in (refused["bad-unit-gb"].field or "")
    assert all(result.field and result.sentence for result in refused.values())
    assert len(refused) == 7
    accepted = {result.name for result in reply.results if result.outcome is Outcome.ACCEPTED}
    assert accepted == {"good-decimal", "good-exponent", "bad-millibytes"}  # the last parses: its status complains

    def the_others_are_known() -> bool:
        return {spec.name for spec, said in two_nodes.overview.kvcaches if said} == {KVCACHE, *accepted}

    await two_nodes.until(the_others_are_known, "the KVCaches that passed the door have a status", 10.0)
    assert two_nodes.running_lives() == lives
    assert two_nodes.served(1)


async def test_a_kvcache_that_is_deleted_and_applied_again_ends_and_returns_under_its_engine(
    two_nodes: World,
) -> None:
    engine = await two_nodes.start_engine()
    (process,) = two_nodes.running(ProcessRole.ENGINE).values()
    (cache,) = two_nodes.running(ProcessRole.CACHE).values()

    assert not (await two_nodes.delete("KVCache", KVCACHE)).refused
    await two_nodes.until(lambda: two_nodes.daemons() == [], "the deleted KVCache's cache ends", 10.0)
    await two_nodes.until(lambda: not two_nodes.overview.kvcaches, "the KVCache is gone", 10.0)

    assert not (await two_nodes.apply_document(MANIFEST, "KVCache")).refused
    await two_nodes.until(lambda: two_nodes.served(1), "the cache is back under the running engine", 10.0)
    (returned,) = two_nodes.running(ProcessRole.CACHE).values()
    assert returned.node == cache.node
    assert returned.pid != cache.pid
    (still,) = two_nodes.running(ProcessRole.ENGINE).values()
    assert (still.pid, still.restarts) == (process.pid, 0)
    assert two_nodes.engine().uid == engine.uid
