"""The engine stand-in as a process, with a real vineyardd and its official client."""

import asyncio
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvberth.vineyard import probe
from support.vineyardd import running_vineyardd
from support.waiting import until

WITHIN_S = 20.0


@dataclass
class Engine:
    process: asyncio.subprocess.Process
    log: Path
    port: int

    def text(self) -> str:
        return self.log.read_text()

    async def until(self, condition: Callable[[str], bool]) -> None:
        """Wait until its log fulfils the condition."""
        try:
            await until(lambda: condition(self.text()), within_s=WITHIN_S)
        except TimeoutError:
            raise AssertionError(self.text()) from None

    async def get(self, path: str) -> str:
        def read() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2) as answer:
                return str(answer.read().decode())

        return await asyncio.to_thread(read)

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()


@pytest.fixture
async def start(directory: Path) -> AsyncIterator[Callable]:
    started: list[asyncio.subprocess.Process] = []

    async def run(**env: str) -> Engine:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        given = {name: value for name, value in os.environ.items() if not name.startswith(("KVBERTH_", "AIBRIX_"))}
        log = directory / "engine.log"
        with log.open("wb") as sink:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kvberth.bare.engine"),
                env={**given, "KVBERTH_ENGINE_PORT": str(port), **env},
                stderr=sink,
            )
        started.append(process)
        return Engine(process, log, port)

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


def legacy(path: Path, scale: str = "0.2") -> dict[str, str]:
    return {"AIBRIX_LLM_KV_CACHE_SOCKET": str(path), "KVBERTH_ENGINE_SCALE": scale}


async def test_it_ends_with_code_1_after_ten_tries_without_a_socket(directory: Path, start: Callable) -> None:
    engine = await start(**legacy(directory / "vineyard.sock", "0.05"))
    async with asyncio.timeout(WITHIN_S):
        assert await engine.process.wait() == 1
    assert engine.text().count("retrying") == 10
    assert "Failed to connect to IPC socket" in engine.text()
    assert "every wait is multiplied by 0.05" in engine.text()


async def test_it_connects_when_the_socket_appears_after_a_few_tries(directory: Path, start: Callable) -> None:
    engine = await start(**legacy(directory / "vineyard.sock"))
    await engine.until(lambda text: "try 3 of 10" in text)
    async with running_vineyardd(directory / "vineyard.sock"):
        await engine.until(lambda text: "cache: stored" in text)
        assert await engine.get("/health") == "ok\n"
        assert "kvberth_engine_cache_connected 1" in await engine.get("/metrics")


async def test_it_goes_on_serving_without_its_daemon_and_uses_the_next_one(directory: Path, start: Callable) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as first:
        engine = await start(**legacy(path))
        await engine.until(lambda text: "cache: stored" in text)
        await first.kill()
        await engine.until(lambda text: "cache: lost" in text)
        assert await engine.get("/health") == "ok\n"
    async with running_vineyardd(path):
        await engine.until(lambda text: "cache: stored" in text.rpartition("cache: lost")[2])
        assert engine.process.returncode is None
        assert "Traceback" not in engine.text()


async def test_it_answers_health_while_its_daemon_hangs(directory: Path, start: Callable) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path) as daemon:
        engine = await start(**legacy(path))
        await engine.until(lambda text: "cache: stored" in text)
        await daemon.freeze()
        await asyncio.sleep(1.0)  # long enough to be in a request that hangs
        async with asyncio.timeout(0.5):
            assert await engine.get("/health") == "ok\n"
        await engine.until(lambda text: "cache: lost" in text)


async def test_told_to_end_it_deletes_its_objects(directory: Path, start: Callable) -> None:
    path = directory / "vineyard.sock"
    async with running_vineyardd(path):
        engine = await start(**legacy(path, "1"))
        await engine.until(lambda text: "cache: stored" in text)
        assert (await probe(path, timeout_s=1.0))[1].memory_usage > 0
        assert await engine.stop() == 0
        assert (await probe(path, timeout_s=1.0))[1].memory_usage == 0


async def test_told_to_end_it_drains_first(start: Callable) -> None:
    engine = await start(KVBERTH_ENGINE_DRAIN_S="0.5")
    await engine.until(lambda text: "serving" in text)
    began = asyncio.get_running_loop().time()
    assert await engine.stop() == 0
    assert asyncio.get_running_loop().time() - began >= 0.5


async def test_one_that_is_not_legacy_serves_without_any_cache(start: Callable) -> None:
    engine = await start()
    await engine.until(lambda text: "serving" in text)
    assert await engine.get("/health") == "ok\n"
    assert "kvberth_engine_cache_connected 0" in await engine.get("/metrics")


async def test_it_serves_on_the_address_that_it_is_told_and_on_no_other(start: Callable) -> None:
    engine = await start(KVBERTH_ENGINE_HOST="127.0.0.2")
    await engine.until(lambda text: "serving on 127.0.0.2" in text)
    socket.create_connection(("127.0.0.2", engine.port), timeout=2).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", engine.port), timeout=2)
    assert await engine.stop() == 0


async def test_without_a_port_it_says_which_variable_is_missing(start: Callable) -> None:
    engine = await start(KVBERTH_ENGINE_PORT="")
    assert await engine.process.wait() == 2
    assert "KVBERTH_ENGINE_PORT is ''" in engine.text()
