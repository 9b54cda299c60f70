"""Three NATS servers that keep each stream three times: the one that leads a stream dies, and the bus goes on."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kvberth.bus import Absent, Bus, BusSettings
from kvberth.cli.keys import keys
from kvberth_schemas import subjects
from kvberth_schemas.events import KVCacheStatusGoneV1
from kvberth_schemas.subjects import EVENTS_STREAM, Entity, Service, events_of
from support.nats import NatsServer
from support.ports import free_port
from support.waiting import until

PEERS = Path(__file__).parents[3] / "k8s" / "components" / "nkeys" / "peers.conf"
STATUS = [events_of(Entity.STATUS)]


class Peer(NatsServer):
    """One of several servers; `routes` are the addresses of all."""

    def __init__(self, directory, name: str) -> None:
        directory.mkdir()
        super().__init__(directory)
        self.name, self.route, self.routes = name, f"127.0.0.1:{free_port()}", []
        self._file = directory / "nats.conf"
        self.peers = ""
        """What takes the place of the plain routes."""

    @property
    def arguments(self) -> list[str]:
        routes = ", ".join(f'"nats://{route}"' for route in self.routes)
        self._file.write_text(
            f'server_name = {self.name}\nlisten = "127.0.0.1:{self.port}"\nlogfile = "{self.log}"\n'
            f'jetstream {{ store_dir = "{self.store}" }}\n'
            f'cluster {{ name = kvberth, listen = "{self.route}", no_advertise = true\n'
            f"{self.peers or f'routes = [{routes}]'} }}\n"
        )
        return ["-c", str(self._file)]


@pytest.fixture
async def peers(tmp_path) -> AsyncIterator[dict[str, Peer]]:
    found = {name: Peer(tmp_path / name, name) for name in ("n0", "n1", "n2")}
    async with AsyncExitStack() as stack:
        for peer in found.values():
            peer.routes = [one.route for one in found.values()]
            await peer.start()
            stack.push_async_callback(peer.kill)
        yield found


def bus_on(peer: Peer, service: Service) -> Bus:
    return Bus(BusSettings(url=peer.url, service=service, instance="t", term=1, reconnect_wait_s=0.1))


async def test_the_death_of_the_server_that_leads_a_stream_stops_nobody_and_loses_nothing(peers):
    async with bus_on(peers["n0"], Service.PLACEMENT) as first:
        await first.declare(3)
        await until(lambda: first.streams.events_created, within_s=40, what="a stream on three servers")
        info = await (await first._connection.session()).stream_info(EVENTS_STREAM)
        assert info.config.num_replicas == 3
        leader = info.cluster.leader
    others = [peer for name, peer in peers.items() if name != leader]
    async with bus_on(others[0], Service.PLACEMENT) as placement, bus_on(others[1], Service.CLI) as reader:
        await placement.declare(3)
        async with (
            placement.writer(STATUS, absent=Absent.KEEP) as writer,
            reader.view(STATUS) as view,
        ):
            before, after = subjects.status("default", "before"), subjects.status("default", "after")
            writer.put(before, KVCacheStatusGoneV1(name="before", namespace="default"))
            writer.ready()
            await until(lambda: before in view.rows)
            created = reader.streams.events_created
            await peers[leader].kill()
            writer.put(after, KVCacheStatusGoneV1(name="after", namespace="default"))
            await until(lambda: {before, after} <= set(view.rows), within_s=30, what="what was said after the death")
            assert reader.streams.events_created == created, "it is the same stream, nothing had to be said anew"
            await peers[leader].start()
            await until(lambda: writer.complete)


async def test_with_keys_servers_join_by_their_password_and_nobody_else_does(tmp_path, monkeypatch):
    """The file is the committed one, the password is read as pods read it."""
    keys(tmp_path / "keys")
    password = (tmp_path / "keys" / "peers.env").read_text().strip().partition("=")[2]
    members = [Peer(tmp_path / name, name) for name in ("n0", "n1", "n2")]
    stranger = Peer(tmp_path / "n3", "n3")
    monkeypatch.setenv("KVBERTH_NATS_PEERS", password)
    for number, peer in enumerate(members):
        monkeypatch.setenv(f"KVBERTH_NATS_ROUTE_{number}", f"nats://peer:{password}@{peer.route}")
        peer.peers = PEERS.read_text()
    stranger.routes = [peer.route for peer in members]
    async with AsyncExitStack() as stack:
        for peer in (*members, stranger):
            await peer.start()
            stack.push_async_callback(peer.kill)
        async with bus_on(members[0], Service.PLACEMENT) as bus:
            await bus.declare(3)
            await until(lambda: bus.streams.events_created, within_s=40, what="a stream on three servers")
            info = await (await bus._connection.session()).stream_info(EVENTS_STREAM)
            assert {info.cluster.leader, *(one.name for one in info.cluster.replicas)} == {"n0", "n1", "n2"}
        await until(lambda: "authorization violation" in stranger.log.read_text().lower(), what="a refusal")
