"""`gate.json` in the directories that wants claim: true to the want, renewed, safe, and gone with the drop."""

import asyncio
import json
import os
import stat
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from integration.node_agent.running_agent import K, running_agent
from kvberth.gate.program import Patience, parse_rule
from kvberth.node_agent.sockets import gatefile
from kvberth.node_agent.sockets.plan import DirWant, GateRule
from support.waiting import until

pytestmark = pytest.mark.integration

WAIT = GateRule("wait", 45.0)
NOTHING = GateRule()


def want(agent, rule=NOTHING, state="keep", id_="w1"):
    agent.keeper.apply({K: replace(DirWant(id_, state, 0o2770, None), rule=rule)})


def told(agent):
    path = agent.directory / "gate.json"
    return json.loads(path.read_text()) if path.is_file() and not path.is_symlink() else None


async def test_a_claimed_directory_tells_gates_what_the_want_says_and_anyone_may_read_it(agent):
    want(agent, WAIT)
    await until(lambda: told(agent) == {"policy": "wait", "timeout_s": 45.0})
    assert stat.S_IMODE((agent.directory / "gate.json").stat().st_mode) == 0o644
    assert [path.name for path in agent.directory.iterdir()] == ["gate.json"]


async def test_what_an_agent_writes_is_what_a_gate_reads(agent):
    defaults = Patience(30.0, starts_without=True)
    for number, (rule, read) in enumerate(
        [
            (WAIT, Patience(45.0, starts_without=False)),
            (GateRule("wait"), Patience(None, starts_without=False)),
            (GateRule("startWithoutCache", 0.0), Patience(0.0, starts_without=True)),
            (NOTHING, defaults),
        ]
    ):
        want(agent, rule, id_=f"w{number}")
        expected = {"policy": rule.policy, "timeout_s": rule.timeout_s}
        await until(lambda expected=expected: told(agent) == expected)
        assert parse_rule((agent.directory / "gate.json").read_text(), defaults) == read


async def test_a_newer_want_is_told_at_once_and_a_kvcache_that_says_nothing_leaves_the_defaults(agent):
    want(agent, WAIT)
    await until(lambda: told(agent))
    want(agent, NOTHING, id_="w2")
    await until(lambda: told(agent) == {"policy": None, "timeout_s": None}, within_s=0.5)


async def test_the_file_is_renewed_long_before_a_gate_takes_it_for_left_behind(agent, monkeypatch):
    monkeypatch.setattr(gatefile, "RENEW_S", 0.1)
    monkeypatch.setattr(gatefile, "LOOK_S", 0.02)
    want(agent, WAIT)
    await until(lambda: told(agent))
    os.utime(agent.directory / "gate.json", (1.0, 1.0))
    await until(lambda: (agent.directory / "gate.json").stat().st_mtime > 1.0)
    assert told(agent) == {"policy": "wait", "timeout_s": 45.0}


async def test_a_directory_that_is_replaced_gets_its_file_within_seconds(agent):
    want(agent, WAIT)
    await until(lambda: told(agent))
    agent.directory.rename(agent.root / "old")
    await until(lambda: told(agent))


async def test_a_dropped_directory_loses_its_file_at_once(agent):
    want(agent, WAIT)
    await until(lambda: told(agent))
    want(agent, WAIT, state="drop", id_="w2")
    assert told(agent) is None
    await asyncio.sleep(1.2)  # a look and more: nothing writes it again
    assert told(agent) is None
    want(agent, WAIT, id_="w3")
    await until(lambda: told(agent))


async def test_a_directory_that_no_want_claims_gets_no_file(agent):
    agent.directory.mkdir(parents=True)
    assert agent.keeper.adopt(K)
    await agent.heard.until_word("lost missing")
    await asyncio.sleep(1.2)
    assert told(agent) is None


async def test_an_agent_that_ends_leaves_the_file_to_grow_old(tmp_path):
    async with running_agent(tmp_path) as agent:
        want(agent, WAIT)
        await until(lambda: told(agent))
    assert told(agent) == {"policy": "wait", "timeout_s": 45.0}


@pytest.mark.parametrize("name", ["gate.json", ".gate.json.new"])
async def test_a_link_of_somebody_else_is_replaced_and_not_followed(agent, name):
    victim = agent.root / "victim"
    victim.write_text("precious")
    agent.directory.mkdir(parents=True)
    (agent.directory / name).symlink_to(victim)
    want(agent, WAIT)
    await until(lambda: told(agent))
    assert victim.read_text() == "precious"
    assert not (agent.directory / "gate.json").is_symlink()


async def test_what_stands_in_its_way_is_said_once_and_the_socket_is_watched_nevertheless(agent, monkeypatch):
    monkeypatch.setattr(gatefile, "LOOK_S", 0.02)
    (agent.directory / "gate.json").mkdir(parents=True)
    with capture_logs() as logs:
        want(agent, WAIT)
        await agent.heard.until_word("lost missing")
        await until(lambda: any("gate.json can't be written" in entry["event"] for entry in logs))
        await asyncio.sleep(0.2)
    assert sum("gate.json can't be written" in entry["event"] for entry in logs) == 1
