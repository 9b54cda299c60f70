"""A stack loses its `up`, a manifest is wrong: the rest stays as it is."""

from pathlib import Path

from kvberth.bare.stack import Layout
from kvberth_schemas.requests import Outcome
from scenario.world import KVCACHE, REPOSITORY, World, command, commands_log, leftovers, processes_of

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


async def test_up_refuses_a_directory_with_things_of_the_user_under_its_names(state: Path) -> None:
    (state / "nodes").mkdir(parents=True)
    (state / "nodes" / "mine.txt").write_text("x")
    up = await command(state, "up")
    assert await up.wait() == 1
    down = await command(state, "down")
    assert await down.wait() == 0
    assert [path.name for path in state.rglob("*")] == ["nodes", "mine.txt"]
    assert "holds nodes, which 'kvberth up' did not make" in commands_log(Layout.of(state))
