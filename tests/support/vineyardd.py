"""A real vineyardd for tests: started on a short socket path, proven by an answered register, ended by its pid."""

import asyncio
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kvberth.vineyard import Client, SocketMissing, SocketStale, find_vineyardd

_START_S = 15.0


@dataclass(frozen=True)
class RunningVineyardd:
    """A vineyardd that has answered; `kill` and the others are for tests of its death."""

    process: asyncio.subprocess.Process
    path: Path
    incarnation: str

    @property
    def pid(self) -> int:
        return self.process.pid

    async def kill(self) -> None:
        """SIGKILL, and its exit is waited for: the socket file stays."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def freeze(self) -> None:
        """SIGSTOP, and until every thread has stopped: before that it may still answer."""
        self.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(5.0):
            # ASYNC110: there is no event to wait for, the kernel shows a stopped thread in /proc only.
            while any(_state(task) != "T" for task in Path(f"/proc/{self.pid}/task").iterdir()):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


def _state(task: Path) -> str:
    """The state letter of a thread; it follows the name, which ends with the last parenthesis."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory whose sockets stay far below the 107 bytes of a Unix socket path (pytest's tmp_path may not)."""
    directory = Path(tempfile.mkdtemp(prefix="kvb-", dir="/tmp"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@asynccontextmanager
async def running_vineyardd(
    socket_path: Path, size: str = "64Mi", incarnation: str | None = None, flags: tuple[str, ...] = ()
) -> AsyncIterator[RunningVineyardd]:
    """Starts a vineyardd without etcd and RPC, yields it once it answers, and ends it whatever state it is in."""
    deployment = incarnation or str(uuid.uuid4())
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = await asyncio.create_subprocess_exec(
            str(find_vineyardd()),
            *("--socket", str(socket_path), "--size", size, "--meta", "local"),
            *("--rpc=false", "--compression=false", "--deployment", deployment, *flags),
            # No etcd on this PATH: vineyardd would start the one that it finds, and leave it running.
            env={"PATH": "/nonexistent"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        daemon = RunningVineyardd(process, socket_path, deployment)
        try:
            await _answers(daemon, log)
            yield daemon
        finally:
            await daemon.kill()


async def _answers(daemon: RunningVineyardd, log: IO[str]) -> None:
    async with asyncio.timeout(_START_S):
        while True:
            try:
                async with await Client.connect(daemon.path, timeout_s=_START_S) as client:
                    status = await client.status()
            except (SocketMissing, SocketStale):
                if daemon.process.returncode is not None:
                    os.lseek(log.fileno(), 0, os.SEEK_SET)
                    raise RuntimeError(f"vineyardd ended with {daemon.process.returncode}: {log.read()}") from None
                await asyncio.sleep(0.01)
                continue
            if status.deployment == daemon.incarnation:
                return
            raise RuntimeError(f"another vineyardd, of incarnation {status.deployment}, answers on {daemon.path}")
