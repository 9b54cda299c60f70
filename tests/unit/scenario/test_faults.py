"""What stands before a daemon that hangs holds up nothing else."""

import asyncio
import socket
import threading
import time

from kvberth.scenario.backend.faults import Faults, ServerProxy
from kvberth.scenario.format.verbs import Fault
from support.waiting import until

CLIENTS = 8


async def test_a_daemon_that_takes_no_more_connections_is_waited_for_by_those_alone_who_want_one(tmp_path):
    path = tmp_path / "default" / "kv" / "vineyard.sock"
    path.parent.mkdir(parents=True)
    daemon = socket.socket(socket.AF_UNIX)
    daemon.bind(str(path))
    daemon.listen(1)
    rescue = threading.Timer(5.0, lambda: [daemon.accept() for _ in range(CLIENTS)])  # for a loop that waits for it
    rescue.start()
    faults, began = Faults(), time.monotonic()
    await faults.put(Fault(node="a", kvcache="kv", does="none"), tmp_path, 0.0)
    try:
        clients = [await asyncio.open_unix_connection(path) for _ in range(CLIENTS)]
        for number, (_, writer) in enumerate(clients):
            writer.write(bytes([number]))
        await asyncio.sleep(0.2)  # none of them has anything to say meanwhile
        assert time.monotonic() - began < 3.0
        daemon.setblocking(False)
        taken = [(await asyncio.get_running_loop().sock_accept(daemon))[0] for _ in range(CLIENTS)]
        heard = [await asyncio.get_running_loop().sock_recv(one, 1) for one in taken]
        assert sorted(heard) == [bytes([number]) for number in range(CLIENTS)]
        for one in taken:
            one.close()
        for reader, writer in clients:
            assert await reader.read() == b""
            writer.close()
        daemon.close()
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not [*path.parent.glob("behind*")], what="the proxy's end after its daemon's")
    finally:
        rescue.cancel()
        daemon.close()
        await faults.close()


async def test_the_way_to_a_server_that_has_a_name_fails_when_it_is_told_to():
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(2))
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ServerProxy("", 0, f"nats://localhost:{port}") as way:
        reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
        writer.write(b"hi")
        assert await reader.read() == b"hi"
        writer.close()
        way.set(Fault(bus=True, does="reset"), 0.0)
        reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
        assert await reader.read() == b""
        writer.close()
