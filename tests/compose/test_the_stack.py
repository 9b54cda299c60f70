"""docker-compose.yml on a real podman: the demo's move, and the loss of each service."""

import asyncio

import pytest
import pytest_asyncio

from compose.containers import MANIFEST, NODES, SERVICES, Containers, Seen, seen_from_outside

pytestmark = pytest.mark.timeout(300)

HEALS_WITHIN_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(containers: Containers) -> Containers:
    """Give containers with the example's engine served: started in the worst order, NATS last, from a clean state."""
    for service in reversed(SERVICES):
        await asyncio.to_thread(containers, "start", service)
    async with seen_from_outside(containers) as seen:
        await seen.until(seen.nodes_ready, "all nodes are ready", HEALS_WITHIN_S)
        said = await asyncio.to_thread(containers.kvberth, "apply", "-f", "-", stdin=MANIFEST.read_text())
        assert "accepted: created" in said
        await seen.until(seen.served, "the engine is served", HEALS_WITHIN_S)
    return containers


async def assert_a_cache_answers_only_beside(containers: Containers, node: str | None) -> None:
    for candidate in NODES:
        assert await asyncio.to_thread(containers.answers, candidate) == (candidate == node), candidate


async def delete(containers: Containers, pod: str) -> None:
    """Delete a pod, asking again while the scheduler has not found the bus again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HEALS_WITHIN_S
    while True:
        try:
            said = await asyncio.to_thread(containers.kvberth, "delete", "pod", pod)
        except AssertionError as error:
            if "nobody listens there" not in str(error) or loop.time() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            assert "accepted" in said
            return


async def move(containers: Containers, seen: Seen) -> str:
    """Delete the engine; give its former name."""
    old = seen.engine().name
    await delete(containers, old)
    await seen.until(lambda: all(pod.name != old or pod.deleting for pod in seen.reader.overview().pods), "told", 10)
    return old


async def test_the_cache_follows_an_engine_that_moves(served: Containers) -> None:
    async with seen_from_outside(served) as seen:
        await seen.until(seen.served, "the engine is served", HEALS_WITHIN_S)
        before = seen.engine()
        await assert_a_cache_answers_only_beside(served, before.node)
        await asyncio.to_thread(served.kvberth, "node", "cordon", str(before.node))
        await move(served, seen)
        await seen.until(
            lambda: seen.served() and seen.engine().node != before.node, "engine and cache moved", HEALS_WITHIN_S
        )
        await assert_a_cache_answers_only_beside(served, seen.engine().node)
        assert seen.engine().restarts == 0
        await asyncio.to_thread(served.kvberth, "node", "uncordon", str(before.node))


@pytest.mark.parametrize("service", SERVICES)
async def test_an_engine_that_moves_while_a_service_is_stopped_is_served_when_it_is_back(
    served: Containers, service: str
) -> None:
    async with seen_from_outside(served) as seen:
        await seen.until(seen.served, "the engine is served", HEALS_WITHIN_S)
        old = seen.engine().name
        await asyncio.to_thread(served, "stop", service)
        away = service in {"nats", "scheduler"}  # nobody can be told to move the engine meanwhile
        if not away:
            old = await move(served, seen)
        await asyncio.to_thread(served, "start", service)
        if away:
            await seen.until(seen.served, "the engine is served again", HEALS_WITHIN_S)
            assert seen.engine().name == old
            old = await move(served, seen)
        await seen.until(
            lambda: seen.served() and seen.engine().name != old, "the new engine is served", HEALS_WITHIN_S
        )
        await assert_a_cache_answers_only_beside(served, seen.engine().node)


async def test_a_node_that_went_off_and_on_runs_its_engine_and_cache_again(served: Containers) -> None:
    async with seen_from_outside(served) as seen:
        await seen.until(seen.served, "the engine is served", HEALS_WITHIN_S)
        engine = seen.engine()
        parts = (f"runner-{engine.node}", f"agent-{engine.node}")
        await asyncio.to_thread(served, "stop", *parts)
        await seen.until(lambda: not seen.nodes_ready(), "the node is seen to be gone", HEALS_WITHIN_S)
        await asyncio.to_thread(served, "start", *parts)
        await seen.until(lambda: seen.served() and seen.engine().restarts > engine.restarts, "served", HEALS_WITHIN_S)
        assert (seen.engine().name, seen.engine().node) == (engine.name, engine.node)
        await assert_a_cache_answers_only_beside(served, engine.node)


async def test_what_was_applied_outlives_the_containers(served: Containers) -> None:
    await asyncio.to_thread(served, "down", "--timeout", "5", within_s=180)
    await asyncio.to_thread(served, "up", "--no-build", "--detach", within_s=180)
    async with seen_from_outside(served) as seen:
        await seen.until(seen.served, "the engine is served without another apply", HEALS_WITHIN_S)
        await assert_a_cache_answers_only_beside(served, seen.engine().node)
