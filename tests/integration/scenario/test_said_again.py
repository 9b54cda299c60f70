"""A message that NATS keeps can be said again; one that was overwritten is named in a sentence."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext

from kvberth.scenario.backend import publish as publishing
from kvberth.scenario.backend.listener import onlooker
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.backend.publish import publish
from kvberth.scenario.facts import Heard
from kvberth.scenario.format.verbs import Publish
from kvberth_schemas.subjects import Service
from support.nats import nats_server
from support.secured_nats import SecuredNats

SUBJECT = "wants.a"


@pytest.fixture
async def stream(tmp_path: Path) -> AsyncIterator[tuple[str, JetStreamContext]]:
    """Give the address of a server, and its stream that keeps one message of a subject."""
    async with nats_server(tmp_path) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        await stream.add_stream(name="WANTS", subjects=["wants.>"], max_msgs_per_subject=1)
        yield server.url, stream
        await client.close()


def heard(sequence: int) -> Heard:
    """Give what an onlooker notes of a message."""
    return Heard(datetime.now(UTC), "id", SUBJECT, "want.cache", "a", "default", "kv", {}, None, "WANTS", sequence)


async def test_a_want_that_another_took_the_place_of_can_not_be_said_again(
    stream: tuple[str, JetStreamContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, messages = stream
    monkeypatch.setattr(publishing, "HEARD_WITHIN_S", 0.2)
    again = Publish.model_validate({"again": {"event": {"type": "want.cache"}}})
    first = heard((await messages.publish(SUBJECT, b"{}")).seq)
    assert await publish(again, onlooker(url), lambda: [first]) == "2 bytes on wants.a"
    with pytest.raises(ScenarioError, match=r"no longer stored.*want\.cache kv on a.*only the last want"):
        await publish(again, onlooker(url), lambda: [first])


async def test_the_last_message_is_waited_for_by_an_onlooker_who_is_behind(
    stream: tuple[str, JetStreamContext],
) -> None:
    url, messages = stream
    again = Publish.model_validate({"again": {"event": {"type": "want.cache"}, "which": "last"}})
    notes = [heard((await messages.publish(SUBJECT, b"{}")).seq)]
    newest = heard((await messages.publish(SUBJECT, b'{"newest": 1}')).seq)
    asked = 0

    def behind() -> list[Heard]:
        nonlocal asked
        asked += 1
        return notes if asked < 5 else [*notes, newest]

    assert await publish(again, onlooker(url), behind) == "13 bytes on wants.a"
    assert asked >= 5


async def test_a_bus_that_asks_for_keys_is_told_with_the_key_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SecuredNats(tmp_path)
    await server.start()
    try:
        said = Publish.model_validate({"subject": "kvberth.alive.v1.-.placement.x", "json": {}})
        with pytest.raises(ScenarioError, match="Authorization Violation"):
            await publish(said, onlooker(server.url), list)
        monkeypatch.setenv("KVBERTH_NATS_NKEY_FILE", str(server.seed(Service.PLACEMENT)))
        assert await publish(said, onlooker(server.url), list) == "2 bytes on kvberth.alive.v1.-.placement.x"
        assert not [line for line in server.refusals() if "Publish" in line]
        monkeypatch.setenv("KVBERTH_NATS_NKEY_FILE", str(tmp_path / "none.seed"))
        with pytest.raises(ScenarioError, match=r"can't be read from .*none\.seed"):
            await publish(said, onlooker(server.url), list)
    finally:
        await server.stop()
