"""The server is killed, frozen, stopped and wiped under open views and writers: unknown at once, then whole again."""

import asyncio

from integration.bus.rig import SOCKETS, declaring, lost, make_bus, plain, socket, sockets_writer, until
from kvberth_schemas.subjects import EVENTS_STREAM, Service

BACK_WITHIN_S = 5.0


async def test_a_killed_server_makes_views_unknown_and_whole_again(server):
    async with declaring(server.url) as reader, make_bus(server.url) as agent:
        async with reader.view(SOCKETS) as view, sockets_writer(agent) as writer:
            writer.put(socket(), lost())
            writer.ready()
            await until(lambda: view.complete and socket() in view.rows and writer.complete)
            await server.kill()
            await until(lambda: not view.complete and not writer.complete, 2)
            writer.put(socket("second"), lost("second"))
            await server.start()
            took = await until(lambda: view.complete and writer.complete and socket("second") in view.rows)
            assert took < BACK_WITHIN_S
            assert socket() in view.rows


async def test_a_wiped_server_is_filled_again_by_the_writers(server):
    async with declaring(server.url) as reader, make_bus(server.url) as agent:
        async with reader.view(SOCKETS) as view, sockets_writer(agent) as writer:
            writer.put(socket(), lost())
            writer.ready()
            await until(lambda: view.complete and socket() in view.rows and writer.complete)
            before = reader.streams.events_created
            await server.kill()
            server.wipe()
            await server.start()
            took = await until(lambda: reader.streams.events_created != before and view.complete and writer.complete)
            assert took < BACK_WITHIN_S
            await until(lambda: socket() in view.rows, 2)


async def test_a_frozen_server_is_noticed_and_loses_nothing(server):
    async with declaring(server.url) as reader, make_bus(server.url) as agent:
        async with reader.view(SOCKETS) as view, sockets_writer(agent) as writer:
            writer.ready()
            await until(lambda: view.complete and writer.complete)
            server.freeze()
            try:
                assert await until(lambda: not agent.connected and not view.complete) < BACK_WITHIN_S
                writer.put(socket(), lost())
            finally:
                server.resume()
            assert await until(lambda: view.complete and writer.complete and socket() in view.rows) < BACK_WITHIN_S


async def test_a_stopped_server_that_returns_is_found_again(server):
    async with declaring(server.url) as reader, reader.view(SOCKETS) as view:
        await until(lambda: view.complete)
        await server.stop()
        await until(lambda: not view.complete, 2)
        await server.start()
        assert await until(lambda: view.complete) < BACK_WITHIN_S


async def test_a_stream_made_anew_under_an_open_view_is_noticed(server):
    settings = {"created_check_s": 0.3}
    async with declaring(server.url, **settings) as reader, make_bus(server.url, **settings) as agent:
        async with reader.view(SOCKETS) as view, sockets_writer(agent) as writer, plain(server.url) as client:
            writer.put(socket(), lost())
            writer.ready()
            await until(lambda: view.complete and socket() in view.rows and writer.complete)
            generation = view.generation
            await client.jsm().delete_stream(EVENTS_STREAM)
            await until(lambda: view.generation > generation and view.complete and writer.complete)
            await until(lambda: socket() in view.rows, 2)


async def test_freshness_ends_with_the_heart_and_returns_with_it(server):
    async with declaring(server.url) as reader, make_bus(server.url) as agent, reader.liveness() as liveness:
        async with sockets_writer(agent) as writer:
            writer.ready()
            async with agent.heart([writer]):
                await until(lambda: liveness.fresh(Service.NODE_AGENT, "a"), 5)
            assert await until(lambda: not liveness.fresh(Service.NODE_AGENT, "a"), 8) > 2
            async with agent.heart([writer]):
                await until(lambda: liveness.fresh(Service.NODE_AGENT, "a"), 5)


async def test_consumers_do_not_leak_over_reconnects(server):
    async with declaring(server.url) as reader, reader.view(SOCKETS) as view, plain(server.url) as client:
        await until(lambda: view.complete)
        for _ in range(4):
            await server.restart()
            await until(lambda: not view.complete, 2)
            await until(lambda: view.complete)
        await until(lambda: client.is_connected)
        consumers = await client.jsm().consumers_info(EVENTS_STREAM)
        assert len(consumers) <= 3


async def test_a_cancelled_task_ends_although_it_publishes(server):
    async with declaring(server.url) as bus, make_bus(server.url) as agent, sockets_writer(agent) as writer:
        writer.ready()
        await until(lambda: writer.complete)
        assert bus.connected
        for number in range(20):
            writer.put(socket(), lost(message=str(number)))
            task = asyncio.create_task(writer.flushed(5))
            await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait({task}, timeout=2)
            assert done
            assert task.cancelled() or task.result()
