"""What a witness answers about its node: sockets, files, processes of containers; and who may ask."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kvberth.scenario.backend.kubernetes import processes
from kvberth.scenario.backend.kubernetes.driver import NodeDriver
from kvberth.scenario.backend.kubernetes.witness import Witness
from kvberth.scenario.backend.protocol import ScenarioError
from support.vineyardd import running_vineyardd

pytestmark = pytest.mark.integration

CONTAINER = "ab" * 32
Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


@asynccontextmanager
async def asked(root: Path, proc: Path = processes.PROC) -> AsyncIterator[Ask]:
    """Run a witness, and give what asks it."""
    runner = web.AppRunner(Witness("secret", root, proc).application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]

    async def ask(path: str, body: dict[str, Any], token: str = "secret") -> dict[str, Any]:
        url = f"http://{host}:{port}{path}?token={token}"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            answer.raise_for_status()
            found: dict[str, Any] = await answer.json()
            return found

    try:
        yield ask
    finally:
        await runner.cleanup()


def fake_process(proc: Path, pid: int, inner: int) -> None:
    """Write what the kernel shows of a process in a container."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(f"0::/../kubepods/besteffort/pod1/{CONTAINER}\n")
    (folder / "cmdline").write_bytes(b"python3\0-m\0vllm\0")
    (folder / "environ").write_bytes(b"A=1\0AIBRIX_LLM_KV_CACHE_SOCKET=/var/run/vineyard.sock\0")
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner}\n")
    (folder / "stat").write_text(f"{pid} (a ) name) T 1 {' '.join(['0'] * 17)} 77 0 3 0\n")


async def test_only_who_knows_the_token_is_answered(tmp_path: Path) -> None:
    async with asked(tmp_path) as ask:
        with pytest.raises(aiohttp.ClientResponseError, match="Forbidden"):
            await ask("/look", {}, token="guessed")
        assert await ask("/look", {}) == {"sockets": [], "paths": [], "processes": []}


async def test_files_and_peers_are_put_below_the_root_and_seen_there(tmp_path: Path) -> None:
    socket = {"pid": None, "path": "default/kv/vineyard.sock"}
    async with asked(tmp_path) as ask:
        assert (await ask("/look", {"sockets": [socket]}))["sockets"][0]["state"] == "missing"
        await ask("/do/files", {"node": "l20-a", "stale_socket": "default/kv/vineyard.sock"})
        assert (await ask("/look", {"sockets": [socket]}))["sockets"][0]["state"] == "stale"
        await ask("/do/peer", {"node": "l20-a", "kvcache": "kv", "does": "garbage"})
        assert (await ask("/look", {"sockets": [socket]}))["sockets"][0]["state"] == "other"
        await ask("/do/files", {"node": "l20-a", "remove": "default/kv"})
        (path,) = (await ask("/look", {"paths": ["default"]}))["paths"]
        assert (path["state"], path["empty"]) == ("directory", True)
        refused = await ask("/do/files", {"node": "l20-a", "remove": "../x"})
        assert "does not lie below" in refused["failed"]


async def test_a_fault_stands_before_a_daemon_until_the_scenario_is_over(directory: Path) -> None:
    place = directory / "default" / "kv"
    place.mkdir(parents=True)
    where, what = {"pid": None, "path": "default/kv/vineyard.sock"}, {"node": "l20-a", "kvcache": "kv"}
    async with running_vineyardd(place / "vineyard.sock"), asked(directory) as ask:
        await ask("/do/fault", {**what, "does": "reset"})
        assert (await ask("/look", {"sockets": [where]}))["sockets"][0]["state"] == "other"
        await ask("/do/fault", {**what, "does": "slow", "delay": "20ms"})
        assert (await ask("/look", {"sockets": [where]}))["sockets"][0]["state"] == "answers"
        assert "blobs" in (await ask("/do/fill", what))["done"]
        assert (await ask("/do/free", what))["done"]
        assert "was not filled" in (await ask("/do/free", what))["failed"]
        await ask("/do/fault", {**what, "does": "reset"})
        assert await ask("/rest", {}) == {}
        assert (await ask("/look", {"sockets": [where]}))["sockets"][0]["state"] == "answers"


async def test_processes_are_told_by_their_container(tmp_path: Path) -> None:
    fake_process(tmp_path / "proc", 4711, 1)
    async with asked(tmp_path, tmp_path / "proc") as ask:
        (one,) = (await ask("/look", {"containers": [CONTAINER]}))["processes"]
        assert (await ask("/look", {"containers": ["cd" * 32]}))["processes"] == []
    found = processes.Process.from_json(one)
    assert (found.pid, found.inner_pid, found.started, found.state) == (4711, 1, 77, "T")
    assert found.argv == ("python3", "-m", "vllm")
    assert found.socket == "/var/run/vineyard.sock"


async def test_a_signal_reaches_the_process_that_is_meant_and_no_successor(tmp_path: Path) -> None:
    sleeper = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    try:
        started = processes.start_of(sleeper.pid)
        async with asked(tmp_path) as ask:
            other = {"pid": sleeper.pid, "started": 1, "signal": "KILL"}
            assert await ask("/signal", other) == {"sent": False}
            assert sleeper.returncode is None
            assert await ask("/signal", {**other, "started": started}) == {"sent": True}
            assert await asyncio.wait_for(sleeper.wait(), 10) == -9
            assert await ask("/signal", {**other, "started": started}) == {"sent": False}
    finally:
        if sleeper.returncode is None:
            sleeper.kill()
            await sleeper.wait()


async def test_a_node_driver_is_called_with_verb_and_node(tmp_path: Path) -> None:
    script = tmp_path / "a driver"
    script.write_text('#!/bin/sh\necho "$@" >> "$0.said"\n[ "$3" != l20-b ] || { echo no such machine; exit 3; }\n')
    script.chmod(0o755)
    drive = NodeDriver(f"'{script}' --hard")
    await drive("kill", "l20-a")
    assert (tmp_path / "a driver.said").read_text() == "--hard kill l20-a\n"
    with pytest.raises(ScenarioError, match=r"could not start l20-b, it ended with 3: no such machine"):
        await drive("start", "l20-b")
    with pytest.raises(ScenarioError, match="needs a command"):
        await NodeDriver(None)("kill", "l20-a")
    with pytest.raises(ScenarioError, match="can't be run"):
        await NodeDriver("/nowhere/driver")("kill", "l20-a")


async def test_a_node_that_no_way_of_the_services_leads_through_says_so(tmp_path: Path) -> None:
    async with asked(tmp_path) as ask:
        said = await ask("/do/fault", {"bus": True, "does": "reset"})
        assert "through this node" in said["failed"]
