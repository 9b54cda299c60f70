"""An engine moves while a service is killed or frozen: the move completes, once, and nothing is started twice."""

import asyncio
import signal

import pytest

from scenario import moves
from scenario.world import World

FROZEN_FOR_S = 3.0


@pytest.mark.parametrize("service", ["scheduler", "placement", "runner-{target}", "node_agent-{target}"])
async def test_moves_complete_when_a_service_is_killed_and_when_it_is_frozen_right_after_the_delete(
    two_nodes: World, service: str
) -> None:
    await two_nodes.cordon("l20-b")
    old = await two_nodes.start_engine()
    assert two_nodes.cache_nodes() == ["l20-a"]

    killed = service.format(target="l20-b")
    life = two_nodes.service_pid(killed)
    await moves.begin(two_nodes, old, "l20-a", "l20-b")
    two_nodes.signal(killed, signal.SIGKILL)
    old = await moves.finish(two_nodes, old, "l20-b")
    assert two_nodes.daemons() == [two_nodes.cache().pid]
    assert two_nodes.service_pid(killed) != life, f"{killed} was not started again"

    frozen = service.format(target="l20-a")
    life = two_nodes.service_pid(frozen)
    await moves.begin(two_nodes, old, "l20-b", "l20-a")
    two_nodes.signal(frozen, signal.SIGSTOP)
    await asyncio.sleep(FROZEN_FOR_S)  # the story itself, not a wait for something
    two_nodes.signal(frozen, signal.SIGCONT)
    await moves.finish(two_nodes, old, "l20-a")
    assert two_nodes.daemons() == [two_nodes.cache().pid]
    assert two_nodes.service_pid(frozen) == life, f"{frozen} did not live on"
