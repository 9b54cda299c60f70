"""A message that NATS keeps can be said again; one that was overwritten is named in a sentence."""

from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest

from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.backend.publish import publish
from kvberth.scenario.facts import Heard
from kvberth.scenario.format.verbs import Publish
from support.nats import nats_server


async def test_a_want_that_another_took_the_place_of_can_not_be_said_again(tmp_path: Path) -> None:
    again = Publish.model_validate({"again": {"event": {"type": "want.cache"}}})
    async with nats_server(tmp_path) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream()
        await stream.add_stream(name="WANTS", subjects=["wants.>"], max_msgs_per_subject=1)
        first = await stream.publish("wants.a", b"{}")
        heard = Heard(
            datetime.now(UTC), "id", "wants.a", "want.cache", "a", "default", "kv", {}, None, "WANTS", first.seq
        )
        assert await publish(again, server.url, [heard]) == "2 bytes on wants.a"
        with pytest.raises(ScenarioError, match=r"no longer stored.*want\.cache kv on a.*only the last want"):
            await publish(again, server.url, [heard])
        await client.close()
