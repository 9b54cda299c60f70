"""The disk refuses NATS for a while: everything goes on by itself afterwards, unnoticed by engines and caches."""

import resource

from scenario.world import World, commands_log


async def test_a_nats_server_that_could_not_write_stores_again_soon_after_it_could(two_nodes: World) -> None:
    engine = await two_nodes.start_engine()
    lives = two_nodes.running_lives()
    nats = two_nodes.service_pid("nats")
    assert nats is not None
    before = resource.prlimit(nats, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))  # as a disk without room
    await two_nodes.cordon(engine.node)
    await two_nodes.until(lambda: "NATS can't store" in commands_log(two_nodes.layout), "it is told", 10.0)
    resource.prlimit(nats, resource.RLIMIT_FSIZE, before)

    def goes_on() -> bool:
        nodes = {node.name: node.unschedulable for node in two_nodes.overview.nodes}
        return two_nodes.served(1) and nodes[engine.node]

    await two_nodes.until(goes_on, "what was asked meanwhile is known", 40.0)
    assert two_nodes.service_pid("nats") != nats
    assert two_nodes.running_lives() == lives
    assert commands_log(two_nodes.layout).count("NATS stores nothing") == 1
