"""Services sign in with their own nkeys at a real nats-server, and are held to the rights of their service."""

import asyncio
import contextlib
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from kvberth.bus import Absent, Bus, BusSettings
from kvberth.bus.keys import new_key
from kvberth.bus.login import CannotSignIn, options, public_key
from kvberth.bus.wrapped import NotWrapped, client_for
from kvberth.cli.connection import connected, layout_of
from kvberth.cli.errors import CommandError
from kvberth_schemas import subjects
from kvberth_schemas.alive import Alive
from kvberth_schemas.events import KVCacheStatusGoneV1
from kvberth_schemas.registry import encode
from kvberth_schemas.rights import ON_BARE, ON_KUBERNETES, rights_of
from kvberth_schemas.subjects import Entity, Service, events_of
from support.secured_nats import SecuredNats, matches
from support.waiting import until

pytestmark = pytest.mark.integration

TLS = Path(__file__).parents[2] / "support" / "tls"


@pytest.fixture
async def server(tmp_path):
    server = SecuredNats(tmp_path)
    await server.start()
    yield server
    await server.kill()


def settings_of(server, service, **changes):
    wanted = {"url": server.url, "service": service, "instance": "a.b", "nkey_file": server.seed(service), "term": 1}
    return BusSettings(**{**wanted, "reconnect_wait_s": 0.1, **changes})


@asynccontextmanager
async def signed_in(server, service, **changes):
    async with Bus(settings_of(server, service, **changes)) as bus:
        if service is Service.PLACEMENT:
            await bus.declare()  # at once, as it does: it may not ask for streams
        await until(lambda: bus.connected, within_s=10)
        yield bus


async def test_a_service_with_its_key_declares_writes_and_is_read_by_another_one(server):
    async with signed_in(server, Service.PLACEMENT) as placement, signed_in(server, Service.CLI) as reader:
        async with (
            placement.writer([events_of(Entity.STATUS)], absent=Absent.KEEP) as writer,
            placement.heart([writer]),
            reader.liveness() as liveness,
            reader.view([events_of(Entity.STATUS)]) as view,
        ):
            subject = subjects.status("default", "kv")
            writer.put(subject, KVCacheStatusGoneV1(name="kv", namespace="default"))
            writer.ready()
            await until(lambda: subject in view.rows and liveness.fresh(Service.PLACEMENT), within_s=20)
    assert server.refusals() == []


async def test_nobody_gets_in_without_a_key_or_with_one_that_the_server_does_not_know(server, tmp_path):
    strange = tmp_path / "strange.seed"
    strange.write_text(new_key().seed)
    with structlog.testing.capture_logs() as told:
        for nkey_file in (None, strange):
            async with Bus(settings_of(server, Service.PLACEMENT, nkey_file=nkey_file)) as bus:
                refused = len(server.refusals())
                await until(lambda refused=refused: len(server.refusals()) > refused, within_s=10)
                assert not bus.connected
    assert "uthorization" in str(told)
    assert strange.read_text() not in str(told)


@pytest.mark.parametrize(
    ("service", "subject"),
    [
        (Service.NODE_AGENT, "kvberth.evt.v1.-.default.u1.pod"),
        (Service.NODE_AGENT, "kvberth.want.v1.a.default.kv.dir"),
        (Service.NODE_AGENT, "kvberth.api.v1.delete"),
        (Service.RUNNER, "kvberth.evt.v1.a.default.kv.socket"),
        (Service.SCHEDULER, "kvberth.evt.v1.-.default.kv.status"),
        (Service.PLACEMENT, "kvberth.evt.v1.a.default.kv.health"),
        (Service.PLACEMENT, "kvberth.alive.v1.-.scheduler.x"),
        (Service.CLI, "kvberth.evt.v1.-.default.u1.pod"),
        (Service.CLI, "kvberth.alive.v1.-.cli.x"),
        (Service.CLI, "$JS.API.STREAM.DELETE.KVBERTH_EVENTS"),
        (Service.NODE_AGENT, "$JS.API.STREAM.UPDATE.KVBERTH_WANTS"),
        (Service.RUNNER, "_INBOX.placement.x"),
    ],
)
async def test_a_service_that_says_what_is_not_its_to_say_is_refused(server, service, subject):
    async with signed_in(server, service) as bus:
        session = await bus._connection.session()
        await session.publish(subject, encode(Alive(term=1, complete=True, stream_created=None)))
        await until(lambda: any(f'"{subject}"' in line for line in server.refusals()), within_s=10)
        assert bus.connected  # one refused message ends nothing else


async def test_nobody_hears_what_is_answered_to_another_one(server):
    async with signed_in(server, Service.NODE_AGENT) as bus:
        session = await bus._connection.session()

        async def hear(_):
            raise AssertionError("it was heard")

        for subject in ("_INBOX.placement.>", "_INBOX.>", ">", "kvberth.api.v1.apply", "kvberth.alive.v1.>"):
            async with session.subscription(subject, hear):
                await until(
                    lambda subject=subject: any(f'"{subject}"' in line for line in server.refusals()), within_s=10
                )


@pytest.mark.parametrize(
    ("variable", "what", "expected"),
    [
        ("KVBERTH_NATS_NKEY_FILE", new_key().seed, "uthorization"),
        ("KVBERTH_NATS_NKEY_FILE", "no seed", "holds no seed of a user's nkey"),
        ("KVBERTH_NATS_TLS_CA", (TLS / "nats.pem").read_text(), "offers no TLS"),
    ],
    ids=["a key that nobody knows", "no key", "a server without TLS"],
)
async def test_a_command_that_is_not_let_in_says_why(server, tmp_path, monkeypatch, variable, what, expected):
    file = tmp_path / "file"
    file.write_text(what)
    monkeypatch.setenv("KVBERTH_NATS_URL", server.url)
    monkeypatch.setenv(variable, str(file))
    with pytest.raises(CommandError, match=f"nobody answers at .*; the last error was: .*{expected}"):
        async with connected(layout_of(tmp_path), within_s=1.0):
            pass


async def test_a_key_that_is_replaced_holds_from_the_next_connect_on(server):
    settings = settings_of(server, Service.PLACEMENT)
    good = settings.nkey_file.read_text()
    settings.nkey_file.write_text(new_key().seed)
    async with Bus(settings) as bus:
        await until(lambda: len(server.refusals()) > 1, within_s=10)
        settings.nkey_file.write_text(good)
        await until(lambda: bus.connected, within_s=10)


async def test_what_is_wrong_with_a_key_is_said_without_a_part_of_it(server, tmp_path):
    account = "SAANJIBNEKGCRUWJCPIWUXFBFJLR36FJTFKGBGKAT7AQXH2LVFNQWZJMQU"
    cases = {account: "SU", "SUAxxxx": "SU", "\u00e4": "no text", "": "SU"}
    for number, (text, expected) in enumerate(cases.items()):
        file = tmp_path / f"{number}.seed"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(CannotSignIn, match=expected) as raised:
            options(settings_of(server, Service.CLI, nkey_file=file))
        assert not text or text not in str(raised.value)
        assert str(file) in str(raised.value)
    with pytest.raises(CannotSignIn, match="No such file"):
        options(settings_of(server, Service.CLI, nkey_file=tmp_path / "none"))


async def test_no_seed_is_in_a_log_nor_in_what_is_shown_of_settings_and_keys(server, caplog):
    caplog.set_level(logging.DEBUG)
    settings = settings_of(server, Service.CLI)
    seed = server.keys[Service.CLI].seed
    with structlog.testing.capture_logs() as told:
        async with Bus(settings) as bus:
            await until(lambda: bus.connected, within_s=10)
            await server.restart()
            await until(lambda: sum(line["event"] == "connected" for line in told) > 1, within_s=20)
    for shown in (told, caplog.text, settings, server.keys, server.log.read_text()):
        assert seed not in f"{shown!r}{shown}"
    assert public_key(settings.nkey_file) == server.keys[Service.CLI].public


async def test_a_server_with_tls_is_trusted_by_its_certificate_and_no_other_one(tmp_path):
    more = f'tls {{ cert_file = "{TLS / "nats.pem"}", key_file = "{TLS / "nats.key"}" }}\n'
    server = SecuredNats(tmp_path, more=more)
    await server.start()
    try:
        for url in (server.url, server.url.replace("nats://", "tls://")):
            async with signed_in(server, Service.CLI, url=url, tls_ca=TLS / "nats.pem"):
                pass
        for wrong in (TLS / "other.pem", None):
            with structlog.testing.capture_logs() as told:
                changes = {"url": server.url.replace("nats://", "tls://"), "tls_ca": wrong}
                async with Bus(settings_of(server, Service.CLI, **changes)) as bus:
                    await until(lambda told=told: "CERTIFICATE_VERIFY_FAILED" in str(told), within_s=10)
                    assert not bus.connected
    finally:
        await server.kill()


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_a_server_that_offers_no_tls_where_it_is_asked_for_hears_nothing(scheme):
    heard = []

    async def plain(reader, writer):
        with contextlib.closing(writer):
            writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"nonce":"abc"}\r\n')
            heard.append(await reader.read())

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        settings = BusSettings(url=url, service=Service.CLI, instance="a", tls_ca=TLS / "nats.pem")
        with structlog.testing.capture_logs() as told:
            async with Bus(replace(settings, reconnect_wait_s=0.1)) as bus:
                await until(lambda: len(heard) > 1, within_s=10)
                assert not bus.connected
    assert set(heard) == {b""}
    assert "offers no TLS" in str(told)


async def test_a_real_server_without_tls_is_refused_where_tls_is_asked_for(server):
    with structlog.testing.capture_logs() as told:
        async with Bus(settings_of(server, Service.CLI, tls_ca=TLS / "nats.pem")) as bus:
            await until(lambda: "offers no TLS" in str(told), within_s=10)
            assert not bus.connected
    with pytest.raises(NotWrapped, match="wss://"):
        client_for("ws://127.0.0.1:1", tls=True)


async def test_what_is_no_certificate_is_refused_with_a_sentence(server, tmp_path):
    with pytest.raises(CannotSignIn, match="holds no certificates"):
        options(settings_of(server, Service.CLI, tls_ca=server.seed(Service.CLI)))


@pytest.mark.parametrize("services", [ON_BARE, ON_KUBERNETES])
def test_no_right_is_a_wildcard_over_services_and_only_placement_makes_streams(services):
    for service in services:
        rights = rights_of(service, services)
        for pattern in (*rights.publish, *rights.subscribe):
            assert not matches(pattern, "kvberth.evt.v1.-.default.x.unheard"), pattern
            assert not any(matches(pattern, f"_INBOX.{other}.x") for other in services if other is not service)
        may_make = any("STREAM.CREATE" in pattern for pattern in rights.publish)
        assert may_make == (service is Service.PLACEMENT)
        assert not any("STREAM.DELETE" in pattern for pattern in rights.publish)
