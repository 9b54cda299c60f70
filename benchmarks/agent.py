"""What a node's agent costs while it proves four caches.

The agent is a process of its own between a real NATS and four real vineyardds, to which nothing happens.
"""

import asyncio
import os
import platform
import socket
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.results import Result, append
from kvberth.bus import Absent, Bus, BusSettings, View
from kvberth.vineyard import find_vineyardd
from kvberth_schemas import subjects
from kvberth_schemas.events import CacheHealthV1, HealthReason
from kvberth_schemas.subjects import Entity, Service, WantKind
from kvberth_schemas.wants import DirWantV1, Why

NODE, NAMESPACE = "l20-a", "default"
CACHES = ("kv1", "kv2", "kv3", "kv4")
WINDOW_S = 20.0
START_S = 30.0
CPU_PERCENT, RSS_MIB = 2.0, 120.0


async def main() -> None:
    """Measure, and append the results."""
    with tempfile.TemporaryDirectory(prefix="kvb-", dir="/tmp") as directory:
        place = Path(directory)
        async with (
            _nats(place) as url,
            _bus(url) as health,
            _agent(place, url) as agent,
            _daemons(place),
        ):
            await _until(health, dict.fromkeys(CACHES, HealthReason.PROVEN))
            results = await _idle(agent)
    for result in results:
        sys.stdout.write(f"{append(result)}\n")


async def _idle(agent: int) -> list[Result]:
    context = {"caches": len(CACHES), "seconds": WINDOW_S, "cpus": os.cpu_count(), "python": platform.python_version()}
    before = _cpu_s(agent)
    await asyncio.sleep(WINDOW_S)
    percent = 100 * (_cpu_s(agent) - before) / WINDOW_S
    return [
        Result(name="agent_idle_cpu_percent", value=round(percent, 2), unit="%", target=CPU_PERCENT, context=context),
        Result(name="agent_rss_mib", value=_pss_mib(agent), unit="MiB", target=RSS_MIB, context=context),
    ]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pss_mib(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return round(int(rollup.partition("Pss:")[2].split()[0]) / 1024, 1)


async def _until(health: View, wanted: dict[str, HealthReason]) -> None:
    """Wait until this was said last of these caches."""
    async with asyncio.timeout(START_S):
        while True:
            said = {
                row.subject.object: row.message.reason
                for row in health.rows.values()
                if isinstance(row.message, CacheHealthV1)
            }
            if all(said.get(name) == reason for name, reason in wanted.items()):
                return
            await health.changed(1.0)


@asynccontextmanager
async def _bus(url: str) -> AsyncIterator[View]:
    """What placement does: declares the streams, and wants the directories."""
    settings = BusSettings(url=url, service=Service.PLACEMENT, instance="bench", term=1)
    async with (
        Bus(settings) as bus,
        bus.view([subjects.events_of(Entity.HEALTH)]) as health,
        bus.writer([subjects.wants_of(WantKind.DIR)], absent=Absent.KEEP) as wants,
    ):
        await bus.declare()
        wants.ready()
        for name in CACHES:
            want = DirWantV1(term=1, state="keep", why=Why.WANTED, namespace=NAMESPACE, kvcache=name)
            wants.put(subjects.want(WantKind.DIR, NODE, NAMESPACE, name), want)
        yield health


@asynccontextmanager
async def _nats(directory: Path) -> AsyncIterator[str]:
    port = _free_port()
    arguments = ("-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(directory / "nats"), "-l", "/dev/null")
    async with _process(str(Path(sys.executable).parent / "nats-server"), *arguments):
        yield f"nats://127.0.0.1:{port}"


@asynccontextmanager
async def _agent(directory: Path, url: str) -> AsyncIterator[int]:
    settings = {
        "KVBERTH_NATS_URL": url,
        "KVBERTH_NODE": NODE,
        "KVBERTH_ROOT": str(directory / "root"),
        "KVBERTH_STATE": str(directory / "state"),
        "KVBERTH_LOG_LEVEL": "error",
    }
    async with _process(sys.executable, "-m", "kvberth.node_agent", env=os.environ | settings) as pid:
        yield pid


@asynccontextmanager
async def _daemons(directory: Path) -> AsyncIterator[None]:
    async with AsyncExitStack() as running:
        for name in CACHES:
            arguments = (
                *("--socket", str(directory / "root" / NAMESPACE / name / "vineyard.sock"), "--size", "64Mi"),
                *("--meta", "local", "--rpc=false", "--compression=false", "--deployment", str(uuid.uuid4())),
            )
            nothing = {"PATH": "/nonexistent"}  # vineyardd would start an etcd that it finds
            await running.enter_async_context(_process(str(find_vineyardd()), *arguments, env=nothing))
        yield


@asynccontextmanager
async def _process(program: str, *arguments: str, env: dict[str, str] | None = None) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(program, *arguments, env=env, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    asyncio.run(main())
