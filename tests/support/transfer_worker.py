"""A real transfer worker beside a real vineyardd, and real engines with the client, each a process of its own."""

import asyncio
import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.waiting import until

TESTS = Path(__file__).parents[1]
ENGINE = TESTS / "integration" / "transfer" / "engine.py"
BLOCK = 64 * 1024
LIMIT_S = 30.0
SMALL_STORE = {
    "KVBERTH_ARENAS": "1",
    "KVBERTH_ARENA_MIB": "17",
    "KVBERTH_EXTENT_MIB": "4",
    "KVBERTH_BUDGET_MIB": "8",
}
"""A store of 256 blocks in a vineyardd of 64 MiB."""


@dataclass
class RunningWorker:
    """`directory` is the cache's."""

    directory: Path
    process: asyncio.subprocess.Process

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def freeze(self) -> None:
        """SIGSTOP, and until it has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        await until(lambda: all(_state(self.process.pid, task.name) == "T" for task in self._tasks()))

    def _tasks(self) -> list[Path]:
        return list(Path(f"/proc/{self.process.pid}/task").iterdir())

    async def metrics(self) -> dict[str, float]:
        """Every number of one scrape, by its name with its one label's value."""
        file = self.directory / "state/services/transfer_worker.json"
        await until(file.exists)
        told = json.loads(file.read_text())
        text = await asyncio.to_thread(_read, f"{told['http']}/metrics")
        found = {}
        for line in text.splitlines():
            match = re.match(r'(kvberth_[a-z_]+)(?:\{[^"]*"([^"]*)"[^}]*\})? (\S+)$', line)
            if match:
                found[f"{match[1]}.{match[2]}" if match[2] else match[1]] = float(match[3])
        return found

    async def metric(self, name: str) -> float:
        return (await self.metrics())[name]


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
        return text


@asynccontextmanager
async def running_worker(directory: Path, program: Path | None = None, **settings: str) -> AsyncIterator[RunningWorker]:
    """Starts a worker (or a program that is one), yields at once, and ends it whatever state it is in."""
    (directory / "state/services/transfer_worker.json").unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *([str(program)] if program else ["-m", "kvberth.transfer_worker"]),
        env={
            **os.environ,
            **SMALL_STORE,
            **settings,
            "PYTHONPATH": str(TESTS),
            "KVBERTH_DIRECTORY": str(directory),
            "KVBERTH_STATE": str(directory / "state"),
            "KVBERTH_LOG_LEVEL": "warning",
        },
    )
    try:
        yield RunningWorker(directory, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Engine:
    """An engine: does one thing after the other, as it is told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def tell(self, *words: object) -> dict[str, int]:
        """Has it do something, and returns what it says of it."""
        self.begin(*words)
        return await self.answer()

    def begin(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())

    async def answer(self) -> dict[str, int]:
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            line = await self.process.stdout.readline()
        assert line, f"the engine ended with {await self.process.wait()}"
        told: dict[str, int] = json.loads(line)
        return told

    async def stopped(self) -> None:
        """Waits until it has stopped itself."""
        await until(lambda: _state(self.process.pid) == "T", within_s=10)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def _state(pid: int, task: str | None = None) -> str:
    return Path(f"/proc/{pid}/task/{task or pid}/stat").read_text().rpartition(")")[2].split()[0]


@asynccontextmanager
async def running_engine(directory: Path, **settings: str) -> AsyncIterator[Engine]:
    """Starts an engine, which connects in the background; ends it whatever state it is in."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ENGINE),
        str(directory),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **settings, "PYTHONPATH": str(TESTS)},
    )
    try:
        yield Engine(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
