"""An `up`, a cache or an engine is killed: what lives on is the same process, and what died is started once."""

import os
import signal

from kvberth_schemas.events import ProcessRole
from scenario.world import World, start_up

BACK_WITHIN_S = 20.0


async def test_an_up_that_is_killed_and_started_again_finds_its_engine_and_cache_running(two_nodes: World) -> None:
    engine = await two_nodes.start_engine()
    lives, seen = two_nodes.running_lives(), {key: set(said) for key, said in two_nodes.lives.items()}
    services = {name: two_nodes.service_pid(name) for name in ("nats", "placement", "scheduler")}
    two_nodes.up.kill()
    await two_nodes.up.wait()
    two_nodes.up = await start_up(two_nodes.layout.state)

    def back() -> bool:
        changed = all(two_nodes.service_pid(name) not in {None, pid} for name, pid in services.items())
        return changed and two_nodes.served(1)

    await two_nodes.settles(back, "the engine is served under a new 'up'", BACK_WITHIN_S)
    assert two_nodes.running_lives() == lives
    assert two_nodes.lives == seen, "a process was started that nobody needed"
    assert two_nodes.engine().uid == engine.uid


async def test_a_killed_cache_is_started_again_and_a_killed_engine_too_each_without_the_other(two_nodes: World) -> None:
    await two_nodes.start_engine()
    (engine,) = two_nodes.running(ProcessRole.ENGINE).values()
    (cache,) = two_nodes.running(ProcessRole.CACHE).values()

    os.kill(cache.pid, signal.SIGKILL)
    await two_nodes.until(lambda: two_nodes.daemons() not in ([], [cache.pid]), "a new daemon runs", BACK_WITHIN_S)
    await two_nodes.until(
        lambda: two_nodes.served(1) and other_life(two_nodes, ProcessRole.CACHE, cache.pid),
        "the new daemon serves",
        BACK_WITHIN_S,
    )
    assert [one.pid for one in two_nodes.running(ProcessRole.ENGINE).values()] == [engine.pid]
    (cache,) = two_nodes.running(ProcessRole.CACHE).values()
    assert cache.restarts == 1

    os.kill(engine.pid, signal.SIGKILL)
    await two_nodes.until(
        lambda: two_nodes.served(1) and other_life(two_nodes, ProcessRole.ENGINE, engine.pid),
        "the killed engine is served again",
        BACK_WITHIN_S,
    )
    assert two_nodes.engine().restarts == 1
    assert two_nodes.daemons() == [cache.pid]


def other_life(world: World, role: ProcessRole, former: int) -> bool:
    """Whether exactly one process of a role runs, and it is not the former one."""
    found = [one.pid for one in world.running(role).values()]
    return len(found) == 1 and found != [former]
