"""The gate as a process of its own, and the rule that it reads."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvberth.gate import manifest

WITHIN_S = 20.0


@dataclass
class GateProcess:
    """A running gate, what it said so far, and the message that it left."""

    process: asyncio.subprocess.Process
    log: Path
    said: list[str] = field(default_factory=list)

    async def until_said(self, what: str) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            while line := (await self.process.stdout.readline()).decode():
                self.said.append(line)
                if what in line:
                    return line
        raise AssertionError(f"the gate ended without saying {what!r}: {self.said}")

    async def ended(self) -> tuple[int, dict[str, Any]]:
        """Its exit code and its message."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            self.said += (await self.process.stdout.read()).decode().splitlines()
            code = await self.process.wait()
        return code, json.loads(self.log.read_text())


@asynccontextmanager
async def gate_process(directory: Path, **env: str) -> AsyncIterator[GateProcess]:
    log = directory / "termination-log"
    log.touch()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-IS", str(manifest.PROGRAM), str(directory / "vineyard.sock"), str(log)),
        env={"PATH": os.environ["PATH"], **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield GateProcess(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


Rules = Callable[..., None]


@pytest.fixture
def rule(directory: Path) -> Rules:
    """Writes gate.json as a node agent does: whole, by a rename."""

    def write(**told: Any) -> None:
        fresh = directory / "gate.json.new"
        fresh.write_text(json.dumps(told))
        fresh.rename(directory / "gate.json")

    return write
