"""A real runner process on a real bus, and the rest of the stack as the test plays it: wants, answers, observation."""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kvberth.bare.process.endings import end, forget, recorded
from kvberth.bus import Absent, Bus, BusSettings, View, Writer
from kvberth_schemas import subjects
from kvberth_schemas.events import ProcessEndedV1, ProcessGoneV1, ProcessStartedV1, SocketMount
from kvberth_schemas.model import Message
from kvberth_schemas.requests import Outcome, RegisterRequest, Reply, Result
from kvberth_schemas.subjects import Entity, Service, Verb, WantKind
from kvberth_schemas.wants import CacheWantV1, EngineWantV1, Why
from support.nats import NatsServer, nats_server
from support.vineyardd import short_directory

NODE = "l20-a"
NAMESPACE = "default"
CACHE = "kv"
HOST_DIRECTORY = f"/var/run/vineyard-kubernetes/{NAMESPACE}/{CACHE}"
MiB = 1024 * 1024
AWAIT_WITHIN_S = 60.0
"""A runner's own start is in it: on a busy machine, with nothing compiled yet, that took 20 s."""


@dataclass
class Rig:
    """What a test of the runner holds."""

    directory: Path
    server: NatsServer
    wants: dict[WantKind, Writer]
    view: View
    registered: list[RegisterRequest] = field(default_factory=list)
    runner: asyncio.subprocess.Process | None = None
    env: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def root(self) -> Path:
        return self.directory / "r"

    @property
    def socket(self) -> Path:
        return self.root / NAMESPACE / CACHE / "vineyard.sock"

    @property
    def records(self) -> Path:
        return self.state / "nodes" / NODE / "records"

    @property
    def logs(self) -> Path:
        return self.state / "nodes" / NODE / "logs"

    async def start_runner(self) -> asyncio.subprocess.Process:
        """Start a runner of the node; it logs to a file that `runner_log` reads."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
        given = {
            "KVBERTH_NATS_URL": self.server.url,
            "KVBERTH_STATE": str(self.state),
            "KVBERTH_NODE": NODE,
            "KVBERTH_ROOT": str(self.root),
        }
        with (self.directory / "runner.log").open("ab") as log:
            self.runner = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kvberth.bare.runner"), env={**clean, **given, **self.env}, stderr=log
            )
        return self.runner

    async def kill_runner(self) -> None:
        await self._end_runner(signal.SIGKILL)

    async def stop_runner(self) -> int:
        return await self._end_runner(signal.SIGTERM)

    async def _end_runner(self, how: signal.Signals) -> int:
        assert self.runner is not None
        if self.runner.returncode is None:
            self.runner.send_signal(how)
        return await self.runner.wait()

    def end_processes(self, grace_s: float) -> list[str]:
        """End what the runner started, as `kvberth down` does."""
        found = recorded(self.records)
        return end(found, grace_s) + forget(found)

    @asynccontextmanager
    async def rival(self, term: int) -> AsyncIterator[Writer]:
        """Speak as another runner of the same node."""
        settings = BusSettings(url=self.server.url, service=Service.RUNNER, instance="rival", node=NODE, term=term)
        pattern = subjects.events_of(Entity.PROCESS, NODE)
        async with Bus(settings) as bus, bus.writer([pattern], absent=Absent.KEEP) as writer:
            yield writer

    def runner_log(self) -> str:
        return (self.directory / "runner.log").read_text()

    def want_cache(self, state: str = "run", why: Why = Why.WANTED, **changes: object) -> str:
        fields = {"namespace": NAMESPACE, "kvcache": CACHE, "kvcache_uid": "k1", "size_bytes": 64 * MiB, **changes}
        want = CacheWantV1(term=1, state=state, why=why, **fields)
        return self.wants[WantKind.CACHE].put(subjects.want(WantKind.CACHE, NODE, NAMESPACE, CACHE), want)

    def want_engine(self, uid: str = "u1", state: str = "run", why: Why = Why.WANTED, **changes: object) -> str:
        fields = {
            "namespace": NAMESPACE,
            "pod_uid": uid,
            "pod_name": f"engine-{uid}",
            "model": "m",
            "env": {"AIBRIX_LLM_KV_CACHE": "1"},
            "sockets": (SocketMount(host_path=HOST_DIRECTORY, mount_path="/var/run"),),
            "grace_s": 5.0,
            **changes,
        }
        want = EngineWantV1(term=1, state=state, why=why, **fields)
        return self.wants[WantKind.ENGINE].put(subjects.want(WantKind.ENGINE, NODE, NAMESPACE, uid), want)

    async def purge(self, what: WantKind, name: str) -> None:
        await self.wants[what].purge(subjects.want(what, NODE, NAMESPACE, name))

    def said(self, owner: str, role: str) -> Message | None:
        """The last word of the runner about a process."""
        row = self.view.rows.get(subjects.process(NODE, NAMESPACE, owner, role))
        return None if row is None else row.message

    def cause(self, owner: str, role: str) -> str | None:
        return self.view.rows[subjects.process(NODE, NAMESPACE, owner, role)].envelope.cause

    async def started(
        self,
        owner: str = CACHE,
        role: str = "cache",
        where: Callable[[ProcessStartedV1], bool] = lambda said: said.ready,
    ) -> ProcessStartedV1:
        """Wait until the runner says that a process runs, and that `where` holds."""
        return await self._await(owner, role, lambda said: isinstance(said, ProcessStartedV1) and where(said))

    async def ended(
        self, owner: str = CACHE, role: str = "cache", where: Callable[[ProcessEndedV1], bool] = lambda _: True
    ) -> ProcessEndedV1:
        return await self._await(owner, role, lambda said: isinstance(said, ProcessEndedV1) and where(said))

    async def gone(self, owner: str = CACHE, role: str = "cache") -> None:
        await self._await(owner, role, lambda said: isinstance(said, ProcessGoneV1))

    async def _await(self, owner: str, role: str, condition: Callable[[Message | None], bool]) -> Message:
        try:
            async with asyncio.timeout(AWAIT_WITHIN_S):
                while not condition(self.said(owner, role)):
                    await self.view.changed(1.0)
        except TimeoutError:
            raise AssertionError(
                f"the last word about {owner}={role} is {self.said(owner, role)!r}; runner: {self.runner_log()}"
            ) from None
        said = self.said(owner, role)
        assert said is not None
        return said


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    """A bus with declared streams, writers of both kinds of wants, and an answer to `register`; no runner yet."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(short_directory())
        server = await stack.enter_async_context(nats_server(directory / "nats"))
        registered: list[RegisterRequest] = []

        async def register(request: RegisterRequest) -> Reply:
            registered.append(request)
            result = Result(kind="Node", namespace=None, name=request.node, outcome=Outcome.ACCEPTED)
            return Reply(results=(result,))

        placement = await stack.enter_async_context(_bus(server, Service.PLACEMENT))
        scheduler = await stack.enter_async_context(_bus(server, Service.SCHEDULER))
        await placement.declare()
        await stack.enter_async_context(scheduler.respond(Verb.REGISTER, RegisterRequest, register))
        wants = {}
        for bus, what in ((placement, WantKind.CACHE), (scheduler, WantKind.ENGINE)):
            writer = bus.writer([subjects.wants_of(what)], absent=Absent.KEEP)
            wants[what] = await stack.enter_async_context(writer)
            wants[what].ready()
        view = await stack.enter_async_context(placement.view([subjects.events_of(Entity.PROCESS)]))
        made = Rig(directory, server, wants, view, registered)
        try:
            yield made
        finally:
            if made.runner is not None:
                await made.kill_runner()
            faults = await asyncio.to_thread(made.end_processes, 2.0)
            assert faults == []


def _bus(server: NatsServer, service: Service) -> Bus:
    return Bus(BusSettings(url=server.url, service=service, instance=str(uuid.uuid4()), term=1, reconnect_wait_s=0.1))


def is_gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process has ended (a zombie has), waiting at most so long."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False
