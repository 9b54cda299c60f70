"""An engine or its KVCache is replaced while the other stays: who stays is the same process, and they meet again."""

import asyncio
import os
from pathlib import Path
from typing import Any

import vineyard

from kvberth.bare.runner.record import Key
from kvberth.cli.overview import Pod
from kvberth_schemas import names
from kvberth_schemas.events import ProcessRole, ProcessStartedV1
from scenario.world import KVCACHE, MANIFEST, World

ENDS_WITHIN_S = 10.0
MEETS_WITHIN_S = 10.0
REPLACED_WITHIN_S = 25.0


async def test_a_kvcache_that_is_deleted_and_applied_again_is_used_again_by_the_same_engine(two_nodes: World) -> None:
    engine = await two_nodes.start_engine()
    process, cache = engine_process(two_nodes), two_nodes.cache()
    assert said_of_the_cache(two_nodes, engine) == ["connected"]

    assert not (await two_nodes.delete("KVCache", KVCACHE)).refused
    await two_nodes.until(lambda: two_nodes.daemons() == [], "the deleted KVCache's cache ends", ENDS_WITHIN_S)
    await two_nodes.until(lambda: not two_nodes.overview.kvcaches, "the KVCache is gone", ENDS_WITHIN_S)
    await two_nodes.until(
        lambda: said_of_the_cache(two_nodes, engine)[-1] == "lost", "the engine misses its cache", MEETS_WITHIN_S
    )

    assert not (await two_nodes.apply_document(MANIFEST, "KVCache")).refused
    await two_nodes.until(lambda: two_nodes.served(1), "the cache is back beside the running engine", MEETS_WITHIN_S)
    await two_nodes.until(
        lambda: said_of_the_cache(two_nodes, engine)[-1] == "connected", "the engine uses its new cache", MEETS_WITHIN_S
    )
    returned, still = two_nodes.cache(), engine_process(two_nodes)
    assert returned.node == cache.node
    assert returned.incarnation != cache.incarnation
    assert (still.pid, still.restarts) == (process.pid, 0)
    assert two_nodes.engine().uid == engine.uid


async def test_an_engine_that_is_replaced_on_its_node_finds_its_cache_warm(two_nodes: World) -> None:
    await two_nodes.cordon("l20-b")
    old = await two_nodes.start_engine()
    cache, socket = two_nodes.cache(), socket_of(two_nodes, "l20-a")
    block = os.urandom(4096)
    stored = await asyncio.to_thread(store, socket, block)

    assert not (await two_nodes.delete("Pod", old.name)).refused
    await two_nodes.settles(
        lambda: two_nodes.served(1) and two_nodes.engine().uid != old.uid,
        "another engine is served on the same node",
        REPLACED_WITHIN_S,
    )
    new = two_nodes.engine()
    assert (new.node, new.restarts) == ("l20-a", 0)
    assert said_of_the_cache(two_nodes, new) == ["connected"]
    still = two_nodes.cache()
    assert (still.pid, still.incarnation, still.restarts) == (cache.pid, cache.incarnation, 0)
    assert two_nodes.lives["l20-a", ProcessRole.CACHE, KVCACHE] == {(cache.pid, cache.incarnation)}
    assert await asyncio.to_thread(read, socket, stored) == block


def engine_process(world: World) -> ProcessStartedV1:
    """Give the one running engine."""
    (found,) = world.running(ProcessRole.ENGINE).values()
    return found


def said_of_the_cache(world: World, engine: Pod) -> list[str]:
    """Give what an engine logged about its cache, in order: connected or lost, each as often as it changed."""
    node = world.layout.state / "nodes" / names.encode(engine.node)
    log = node / "logs" / f"{Key(ProcessRole.ENGINE, engine.namespace, engine.uid).stem}.log"
    words = [line.split()[2] for line in log.read_text().splitlines() if line.startswith("engine: cache: ")]
    changes = [word for word in words if word in {"connected", "lost"}]
    return [word for index, word in enumerate(changes) if index == 0 or word != changes[index - 1]]


def socket_of(world: World, node: str) -> Path:
    """Where the example's cache answers on a node."""
    return world.layout.node_root(node) / "default" / KVCACHE / "vineyard.sock"


def store(socket: Path, block: bytes) -> Any:
    """Put a sealed blob into a cache with the official client, which goes away again; give its id."""
    client = vineyard.connect(str(socket))
    builder = client.create_blob(len(block))
    builder.copy(0, block)
    stored = builder.seal(client).id
    client.close()
    return stored


def read(socket: Path, stored: Any) -> bytes:
    """Read a blob with the official client."""
    client = vineyard.connect(str(socket))
    try:
        return bytes(memoryview(client.get_blob(stored)))
    finally:
        client.close()
