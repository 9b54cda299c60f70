"""The command line as a user has it: real processes, a state directory of their own, what they print."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

KVBERTH = (sys.executable, "-m", "kvberth.cli")
STARTS_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 30.0


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass
class Terminal:
    """One user with one state directory."""

    state: Path

    @property
    def env(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
        return {**clean, "KVBERTH_STATE": str(self.state)}

    async def run(self, *words: str, stdin: bytes = b"") -> Ran:
        """Run one kvberth command to its end."""
        return await self._run(await self._start(*KVBERTH, *words), stdin)

    async def shell(self, line: str) -> Ran:
        """Run a line as a person would paste it, in the repository, where `.venv/bin/kvberth` is the command."""
        return await self._run(
            await self._start("bash", "-c", line.replace(".venv/bin/kvberth", shlex.join(KVBERTH))), b""
        )

    async def until(self, holds: Callable[[str], bool], *words: str, within_s: float = 30.0) -> str:
        """Run a command again and again until its output holds what is waited for; give that output."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not holds((ran := await self.run(*words)).out):
            assert loop.time() < deadline, f"not within {within_s:g} s; the last output:\n{ran.out}{ran.err}"
        return ran.out

    async def interrupted(self, *words: str, at: Callable[[str], bool]) -> Ran:
        """Run a command that does not end by itself until its output holds something, then press Ctrl-C."""
        process = await self._start(*KVBERTH, *words)
        assert process.stdout is not None
        out = await _read_until(process.stdout, at, ANSWERS_WITHIN_S)
        process.send_signal(signal.SIGINT)
        rest = await self._run(process, b"")
        return Ran(rest.code, out + rest.out, rest.err)

    async def ended_by(self, other: str, *words: str, at: Callable[[str], bool]) -> tuple[Ran, Ran]:
        """Run a command until its output holds something, then another one that ends it; give both."""
        process = await self._start(*KVBERTH, *words)
        assert process.stdout is not None
        out = await _read_until(process.stdout, at, ANSWERS_WITHIN_S)
        ending = await self.run(other)
        rest = await self._run(process, b"")
        return ending, Ran(rest.code, out + rest.out, rest.err)

    async def interrupted_at_import(self, module: str, *words: str) -> Ran:
        """Run a command, and press Ctrl-C when Python says that it has imported a module that begins so."""
        argv = (sys.executable, "-X", "importtime", *KVBERTH[1:], *words)
        process = await self._start(*argv)
        assert process.stderr is not None
        await _read_until(process.stderr, lambda err: f" {module}" in err, ANSWERS_WITHIN_S)
        process.send_signal(signal.SIGINT)
        return await self._run(process, b"")

    @asynccontextmanager
    async def up(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run `kvberth up` until it says that it is up; end it as Ctrl-C does, if it has not ended."""
        process = await self._start(*KVBERTH, "up", *words)
        assert process.stdout is not None
        try:
            await _read_until(process.stdout, lambda out: "\nup. " in out, STARTS_WITHIN_S)
            yield process
        finally:
            if process.returncode is None and self.state.exists():  # else 'down' has ended it, and it is about to exit
                process.send_signal(signal.SIGINT)
            async with asyncio.timeout(STARTS_WITHIN_S):
                await process.communicate()
        assert process.returncode == 0
        assert not self.state.exists(), "the state directory is left behind"

    async def _start(self, *argv: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        root = Path(__file__).parents[3]
        return await asyncio.create_subprocess_exec(*argv, env=self.env, cwd=root, stdin=pipe, stdout=pipe, stderr=pipe)

    async def _run(self, process: asyncio.subprocess.Process, stdin: bytes) -> Ran:
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                out, err = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())


async def _read_until(stream: asyncio.StreamReader, holds: Callable[[str], bool], within_s: float) -> str:
    out = ""
    async with asyncio.timeout(within_s):
        while not holds(out):
            line = await stream.readline()
            assert line, f"it ended after: {out}"
            out += line.decode()
    return out
