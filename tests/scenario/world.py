"""A whole `kvberth up` with real processes, as a test sees it: what it does to it, what it reads, what must be left.

Everything is done as a user or the kernel would do it: requests on the bus, the command line, signals, `rm`.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from kvberth.bare.stack import Layout
from kvberth.bare.stack.layout import Address
from kvberth.bus import Bus, BusSettings
from kvberth.cli.overview import Overview, Pod, condition
from kvberth.cli.status import StatusReader, status_reader
from kvberth_schemas.events import ConditionStatus, KVCacheStatusV1, ProcessRole, ProcessStartedV1
from kvberth_schemas.model import Message
from kvberth_schemas.requests import ApplyRequest, NodeRequest, ObjectRequest, Reply, ScaleRequest
from kvberth_schemas.subjects import Service, Verb

REPOSITORY = Path(__file__).parents[2]
MANIFEST = REPOSITORY / "examples" / "llama-3-8b-l20" / "engine-and-kvcache.yaml"
WORKLOAD = "llama-3-8b-instruct"
KVCACHE = "aibrix-kvcache-llama-3-8b-instruct"
GPU_LABEL = "machine.cluster.vke.volcengine.com/gpu-name"
STARTS_WITHIN_S = 60.0
ENDS_WITHIN_S = 20.0
CALM_FOR_S = 4.0

Life = tuple[int, str | None]
"""A process's pid and, for caches, incarnation."""


@dataclass
class World:
    """One running stack; `reader` follows its last states."""

    layout: Layout
    up: asyncio.subprocess.Process
    bus: Bus
    reader: StatusReader
    lives: dict[tuple[str, ProcessRole, str], set[Life]] = field(default_factory=dict)
    """Every life that was ever said on the bus, by node, role and name: a restart between two looks shows here."""

    async def ask(self, verb: Verb, request: Message) -> Reply:
        """Ask the scheduler."""
        reply: Reply = await self.bus.request(verb, request, Reply)
        return reply

    async def apply(self, file: Path) -> Reply:
        """Apply a manifest."""
        return await self.ask(Verb.APPLY, ApplyRequest(text=file.read_text(), source=file.name))

    async def apply_document(self, file: Path, kind: str) -> Reply:
        """Apply only the documents of one kind."""
        wanted = [one for one in yaml.safe_load_all(file.read_text()) if one["kind"] == kind]
        return await self.ask(Verb.APPLY, ApplyRequest(text=yaml.safe_dump_all(wanted), source=file.name))

    async def delete(self, kind: str, name: str) -> Reply:
        """Delete an object."""
        return await self.ask(Verb.DELETE, ObjectRequest(kind=kind, name=name))

    async def scale(self, replicas: int) -> Reply:
        """Set how many engines the example's Deployment wants."""
        return await self.ask(Verb.SCALE, ScaleRequest(name=WORKLOAD, replicas=replicas))

    async def cordon(self, node: str) -> Reply:
        """Let no new engine come to a node."""
        return await self.ask(Verb.CORDON, NodeRequest(node=node))

    async def uncordon(self, node: str) -> Reply:
        """Let engines come to a node again."""
        return await self.ask(Verb.UNCORDON, NodeRequest(node=node))

    def signal(self, service: str, number: signal.Signals) -> None:
        """Send a signal to the present life of a service (``nats``, ``scheduler``, ``runner-l20-b`` …)."""
        pid = self.service_pid(service)
        assert pid is not None, f"{service} is being started"
        os.kill(pid, number)

    def service_pid(self, service: str) -> int | None:
        """Give the pid in the service's record; None while it is being started."""
        pid: int | None = json.loads((self.layout.records / f"{service}.json").read_text())["pid"]
        return pid

    def wipe_nats(self) -> None:
        """Kill the NATS server and remove all that it stored, before its supervisor starts it again."""
        self.signal("nats", signal.SIGKILL)
        shutil.rmtree(self.layout.nats)

    @property
    def overview(self) -> Overview:
        """The present last states."""
        return self.reader.overview()

    @property
    def status(self) -> KVCacheStatusV1 | None:
        """What placement last said of the example's KVCache."""
        return next((said for spec, said in self.overview.kvcaches if spec.name == KVCACHE), None)

    @property
    def pods(self) -> list[Pod]:
        """The engines of the example's workload."""
        return [pod for pod in self.overview.pods if pod.workload is not None and pod.workload.name == WORKLOAD]

    def engine(self) -> Pod:
        """Give the example's one engine that is not deleting."""
        (found,) = (pod for pod in self.pods if not pod.deleting)
        return found

    def cache(self) -> ProcessStartedV1:
        """Give the one running cache of the example's KVCache."""
        (found,) = (one for one in self.running(ProcessRole.CACHE).values() if one.name == KVCACHE)
        return found

    def running(self, role: ProcessRole) -> dict[str, ProcessStartedV1]:
        """Give the processes of a role by node and name."""
        return {f"{p.node}/{p.name}": p for p in self.overview.processes if p.role is role}

    def running_lives(self) -> dict[str, Life]:
        """Give pid and incarnation of everything that runs, by node and name."""
        return {f"{p.node}/{p.name}": (p.pid, p.incarnation) for p in self.overview.processes}

    def daemons(self) -> list[int]:
        """Give the pids of the vineyardd processes that really run, whatever the bus says."""
        # Up to the first option stands the program, whose path may hold spaces.
        return [pid for pid, words in processes_of(self.layout).items() if "vineyardd" in words.split(" --")[0]]

    def cache_nodes(self) -> list[str]:
        """Give the nodes that the status lists."""
        return sorted(row.node for row in self.status.nodes) if self.status else []

    def served(self, engines: int) -> bool:
        """Whether so many engines are ready and served, and the KVCache says Ready; stale views say no."""
        said = self.status
        ready = condition(said, "Ready") if said else None
        return (
            self.reader.complete
            and said is not None
            and ready is not None
            and ready.status is ConditionStatus.TRUE
            and said.engines == said.engines_served == engines
            and len(self.pods) == engines
            and all(pod.ready for pod in self.pods)
        )

    async def until(self, holds: Callable[[], bool], what: str, within_s: float) -> float:
        """Wait until a condition holds; give the seconds it took."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while not holds():
            assert self.up.returncode is None, f"'up' has ended: {commands_log(self.layout)}"
            if loop.time() - started > within_s:
                raise AssertionError(f"{what}: not within {within_s:g} s; {self.seen()}")
            await self.reader.view.changed(0.1)
        return loop.time() - started

    async def settles(self, holds: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait until a condition has held for `CALM_FOR_S` on end: a wrong decision would show soon after."""
        loop = asyncio.get_running_loop()
        since = loop.time()

        def calm() -> bool:
            nonlocal since
            if not holds():
                since = loop.time()
            return loop.time() - since > CALM_FOR_S

        took = await self.until(calm, what, within_s + CALM_FOR_S)
        print(f"{what}: after {took - CALM_FOR_S:.1f} s")

    def seen(self) -> str:
        """Say in some lines what the bus says now, and what the services last logged."""
        pods = [f"{p.name} on {getattr(p, 'node', '-')} ready={p.ready} del={p.deleting}" for p in self.overview.pods]
        said = self.status
        conditions = [f"{c.type}={c.status} {c.reason}: {c.message}" for c in said.conditions] if said else []
        rows = [f"{row.node}={row.state}" for row in said.nodes] if said else []
        logs = [f"{file.name}: {file.read_text()[-600:]}" for file in sorted(self.layout.logs.glob("*.log"))]
        return "\n".join(
            [
                f"view complete={self.reader.view.complete}, silent={dict(self.overview.silent)}",
                f"pods {pods}",
                f"processes {self.running_lives()}",
                f"status rows {rows}, conditions {conditions}",
                *logs,
            ]
        )

    async def start_engine(self) -> Pod:
        """Apply the example and wait until its engine is served; give the engine."""
        assert not (await self.apply(MANIFEST)).refused
        await self.until(lambda: self.served(1), "the example's engine is served", STARTS_WITHIN_S)
        return self.engine()

    async def end(self) -> None:
        """End `up` as Ctrl-C in its terminal or a service manager would."""
        if self.up.returncode is None:
            self.up.send_signal(signal.SIGTERM)
        async with asyncio.timeout(ENDS_WITHIN_S):
            assert await self.up.wait() == 0

    def remember(self) -> None:
        """From now on keep every life that the runners say."""
        self.reader.view.add_listener(lambda row: self._heard(row.message))

    def _heard(self, message: object) -> None:
        if isinstance(message, ProcessStartedV1) and not message.at_gate:
            lives = self.lives.setdefault((message.node, message.role, message.name), set())
            lives.add((message.pid, message.incarnation))


@asynccontextmanager
async def world(state: Path, nodes: Sequence[str] = ("l20-a", "l20-b")) -> AsyncIterator[World]:
    """Run `kvberth up` with L20 nodes, until its nodes are ready; afterwards nothing of it may be left."""
    layout = Layout.of(state)
    node_file(state).write_text(yaml.safe_dump_all([_node(name) for name in nodes]))
    up = await start_up(state)
    try:
        url = await _address(layout, up)
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(Bus(BusSettings(url=url, service=Service.CLI, instance="scenario")))
            reader = await stack.enter_async_context(status_reader(bus))
            made = World(layout, up, bus, reader)
            made.remember()
            await made.until(lambda: _ready_nodes(made) == len(nodes), "every node is ready", STARTS_WITHIN_S)
            try:
                yield made
            finally:
                up = made.up  # a test may have started another one
        if up.returncode is None:
            await made.end()
        left = leftovers(layout)
        assert not left, f"left behind: {left}"
    finally:
        await _clear_away(layout, up)


async def start_up(state: Path) -> asyncio.subprocess.Process:
    """Start `kvberth up` with the nodes of the state directory's world."""
    return await command(state, "up", "--nodes", str(node_file(state)))


def node_file(state: Path) -> Path:
    """Name the file of the world's nodes."""
    return state.parent / "nodes.yaml"


async def command(state: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start a `kvberth` command with a state directory of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
    argv = (sys.executable, "-m", "kvberth.cli", *arguments, "--state", str(state))
    with (state.parent / "commands.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(*argv, env=clean, stdout=log, stderr=log)


def commands_log(layout: Layout) -> str:
    """Give what the commands printed."""
    return (layout.state.parent / "commands.log").read_text()


def leftovers(layout: Layout) -> list[str]:
    """Name all that is left of a stack: processes that know its directories, sockets, files."""
    left = [f"process {pid}: {words}" for pid, words in processes_of(layout).items()]
    return left + [str(path) for path in (layout.root, layout.state) if path.exists()]


def processes_of(layout: Layout) -> dict[int, str]:
    """Give the living processes that carry the stack's directories in their arguments or environment."""
    marks = (os.fsencode(layout.state), os.fsencode(layout.root))
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if any(mark in arguments or mark in environment for mark in marks):
            found[int(entry.name)] = arguments.replace(b"\0", b" ").decode(errors="replace")
    return found


def _node(name: str) -> dict[str, object]:
    allocatable = {"cpu": "60", "memory": "192Gi", "nvidia.com/gpu": "1"}
    metadata = {"name": name, "labels": {GPU_LABEL: "NVIDIA-L20"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def _ready_nodes(made: World) -> int:
    return sum(node.ready for node in made.overview.nodes) if made.reader.complete else 0


async def _address(layout: Layout, up: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(STARTS_WITHIN_S):
        while (address := Address.read(layout)) is None:
            assert up.returncode is None, f"'up' has ended: {commands_log(layout)}"
            await asyncio.sleep(0.05)
    return address.nats_url


async def _clear_away(layout: Layout, up: asyncio.subprocess.Process) -> None:
    """Whatever a failed test left must not disturb the next: end it by its pids."""
    if up.returncode is None:
        up.kill()
    await up.wait()
    for pid in processes_of(layout):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(layout.root, ignore_errors=True)
