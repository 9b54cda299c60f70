"""Whatever is put, forgotten, killed, wiped or said by others in whatever order: in the end it is as desired."""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nats.js.errors import NoStreamResponseError

from integration.bus.rig import SOCKETS, declaring, lost, make_bus, plain, say, socket, sockets_writer
from kvberth_schemas.events import SocketLostV1
from support.nats import NatsServer, nats_server
from support.waiting import until

NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.sampled_from("xyz")),
    st.tuples(st.just("forget"), NAMES),
    st.tuples(st.just("foreign"), NAMES),
    st.tuples(st.just("garbage"), NAMES),
    st.tuples(st.just("restart writer")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("wipe")),
    st.tuples(st.just("cut")),
    st.tuples(st.just("pause")),
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=12))
def test_any_interleaving_converges_to_what_is_desired(steps):
    asyncio.run(_run(steps))


async def _run(steps):
    desired: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        async with nats_server(Path(directory)) as server, declaring(server.url, reconnect_wait_s=0.05) as reader:
            async with reader.view(SOCKETS) as view:
                rest = list(steps)
                while True:
                    async with make_bus(server.url, reconnect_wait_s=0.05) as agent, sockets_writer(agent) as writer:
                        for name, text in desired.items():
                            writer.put(socket(name), lost(name, text))
                        writer.ready()
                        rest = await _walk(rest, server, agent, writer, desired)
                        if not rest:
                            await until(lambda writer=writer: writer.complete and view.complete, within_s=15)
                            await until(lambda: _shown(view) == desired and not view.unreadable, within_s=15)
                            return


async def _walk(steps, server: NatsServer, agent, writer, desired):
    """Take steps until the writer is to be restarted; give what is left."""
    for index, (step, *arguments) in enumerate(steps):
        if step == "restart writer":
            return steps[index + 1 :] or [("pause",)]
        if step in ("put", "forget"):
            _wish(writer, desired, *arguments)
        elif step in ("foreign", "garbage"):
            await _interfere(server, step, arguments[0], index)
        elif step == "cut":
            if agent.connected:
                (await agent._connection.session()).lifetime.end("the test cuts the connection")
        else:
            await _shake(server, step)
    return []


def _wish(writer, desired, name, text=None):
    if text is None:
        desired.pop(name, None)
        writer.forget(socket(name))
    else:
        desired[name] = text
        writer.put(socket(name), lost(name, text))


async def _shake(server, step):
    if step == "pause":
        await asyncio.sleep(0.05)
        return
    await server.kill()
    if step == "wipe":
        server.wipe()
    await server.start()


async def _interfere(server, step, name, index):
    async with plain(server.url) as client:
        with suppress(NoStreamResponseError):  # there may be no stream just now: then nothing is said
            if step == "foreign":
                await say(client, socket(name), lost(name, f"foreign {index}"), f"foreign-{index}")
            else:
                await client.jetstream().publish(str(socket(name)), b"garbage")


def _shown(view):
    return {
        subject.object: row.message.message
        for subject, row in view.rows.items()
        if isinstance(row.message, SocketLostV1)
    }
