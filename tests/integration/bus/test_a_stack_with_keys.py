"""The whole bare stack with a key for each service: a move works, nothing is refused, and hardly a right is unused."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kvberth.bare.stack import up
from kvberth.bare.stack.layout import Layout
from kvberth.bare.stack.nodes import read_nodes
from kvberth_schemas.rights import ON_BARE, rights_of
from kvberth_schemas.subjects import Service
from support.secured_nats import SecuredNats, unused
from support.waiting import until

pytestmark = [
    pytest.mark.integration,
    # A stack ends its programs by their records, and waits for none: its own process ends then, but not the tests'.
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama-3-8b-l20" / "engine-and-kvcache.yaml"
NOT_TOLD_HERE = {
    "_INBOX.cli.": "a command that lasts longer than a second asks whether its connection still carries messages",
    "kvberth.api.v1.delete-node": "as the next ones",
    "kvberth.api.v1.uncordon": "",
    "kvberth.api.v1.cordon": "",
    "kvberth.api.v1.scale": "",
}
"""Rights that this story does not use."""


async def kvberth(server, *arguments):
    own = {"KVBERTH_NATS_URL": server.url, "KVBERTH_NATS_NKEY_FILE": str(server.seed(Service.CLI))}
    command = [sys.executable, "-m", "kvberth.cli", *map(str, arguments)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **own}, stdout=pipe, stderr=pipe)
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return out.decode()


async def served_nodes(server):
    """Nodes of the engines, once all of them are ready and served."""
    told = json.loads(await kvberth(server, "status", "--json"))
    states = [one["status"] for one in told["kvcaches"] if one["status"]]
    served = states and all(state["engines"] == state["engines_served"] > 0 for state in states)
    ready = all(engine["ready"] for engine in told["engines"])
    return {engine["node"] for engine in told["engines"]} if served and ready else None


@pytest.fixture
async def server(tmp_path, monkeypatch):
    server = SecuredNats(tmp_path)
    await server.start()
    programs = up.service_programs

    def with_keys(*arguments):
        return [
            replace(one, env={**one.env, "KVBERTH_NATS_NKEY_FILE": str(server.seed(Service(one.name.split("-")[0])))})
            for one in programs(*arguments)
        ]

    monkeypatch.setattr(up, "service_programs", with_keys)
    monkeypatch.setenv(up.SERVICES_NATS_URL, server.url)
    yield server
    await server.kill()


async def test_an_engine_moves_and_nothing_is_refused_and_no_right_is_there_for_nothing(server, tmp_path):
    async with up.Stack(Layout.of(tmp_path / "state"), read_nodes(None)):
        await until(lambda: kvberth_answers(server), within_s=30, what="the scheduler's answer")
        before = await until(lambda: served_nodes(server), within_s=60, what="an engine beside its cache")
        await kvberth(server, "node", "drain", *before)
        await until(lambda: moved(server, before), within_s=60, what="the move")
        await kvberth(server, "delete", "-f", EXAMPLE)
    assert server.refusals() == []
    seen = server.seen()
    assert set(seen) == set(ON_BARE)
    for service in ON_BARE:
        rights = rights_of(service, ON_BARE)
        assert not unused(rights.publish, seen[service].published, NOT_TOLD_HERE), service
        assert not unused(rights.subscribe, seen[service].subscribed), service


async def kvberth_answers(server):
    try:
        return await kvberth(server, "apply", "-f", EXAMPLE)
    except AssertionError as error:
        if "within" in str(error) or "answer" in str(error):
            return None  # it has not started yet
        raise


async def moved(server, before):
    after = await served_nodes(server)
    return after if after and not after & before else None
