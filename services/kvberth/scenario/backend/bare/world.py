"""The bare backend: a stack per scenario, and what its verbs do to it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from kvberth.bare.stack.up import SERVICES_NATS_URL
from kvberth.scenario.backend import faults, files
from kvberth.scenario.backend.bare import environment
from kvberth.scenario.backend.bare.look import Looker
from kvberth.scenario.backend.bare.nodes import AddedNodes
from kvberth.scenario.backend.bare.objects import Objects
from kvberth.scenario.backend.bare.signals import Signals
from kvberth.scenario.backend.bare.stack import BareStack
from kvberth.scenario.backend.filling import Fillings
from kvberth.scenario.backend.keeping import keep_events
from kvberth.scenario.backend.listener import Listener
from kvberth.scenario.backend.protocol import ScenarioError, Setting
from kvberth.scenario.backend.publish import among, publish
from kvberth.scenario.facts import Facts, Heard, Mark
from kvberth.scenario.format import Expectation, Scenario, Step, verbs
from kvberth_schemas.manifests import load_documents

READY_WITHIN_S = 60.0


class BareWorld:
    """One running stack."""

    def __init__(self, stack: BareStack, listener: Listener, setting: Setting, nodes: Sequence[str]) -> None:
        self._stack = stack
        self._listener = listener
        self._looker = Looker(stack, listener, nodes)
        self._signals = Signals(stack, self._looker)
        self._objects = Objects(listener.bus, self._looker, setting)
        self.added = AddedNodes(stack)
        self.peers = files.Peers()
        self.faults = faults.Faults()
        self._fillings = Fillings()
        self.bus: faults.ServerProxy | None = None
        self._timing = setting.timing

    @property
    def heard(self) -> Sequence[Heard]:
        """Everything that was said on the bus so far."""
        return self._listener.heard

    async def changed(self, timeout_s: float) -> None:
        """Wait until something new was said, at most so long."""
        await self._listener.changed(timeout_s)

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        """Find out what expectations are about."""
        if self._listener.overflown:
            raise ScenarioError(
                f"the bus said more than {len(self._listener.heard)} messages; a scenario keeps no more"
            )
        return await self._looker.look(expectations)

    async def do(self, step: Step, marks: Mapping[str, Mark]) -> str:
        """Carry out a verb."""
        kind, value = step.kind, step.value
        signals = self._signals
        await self._looker.status.close()  # what is asked now says nothing of what is done now
        match kind:
            case "kill":
                return await signals.kill(value.target, value.signal)
            case "pause" | "resume" | "restart" | "stop" | "start":
                return str(await getattr(signals, kind)(value))
            case "wipe":
                return await signals.wipe_nats()
            case "node_down" | "node_up" | "disk":
                return str(await getattr(signals, kind)(value))
            case "node_add":
                self._looker.nodes.append(value.name)
                return await self.added.add(value)
            case "node_label":
                return await self.added.label(value, self._signals)
            case "publish":
                return await publish(value, self._listener.settings, lambda: among(value, self.heard, marks))
            case "files" | "peer" | "fill" | "free":
                return await self._do_at_sockets(kind, value, self._stack.layout.node_root(value.node))
            case "fault":
                return await self._fault(value)
            case _:
                return await self._objects.do(kind, value)

    async def _do_at_sockets(self, kind: str, what: verbs.FileAct | verbs.Peer | verbs.Filled, root: Path) -> str:
        if isinstance(what, verbs.Peer):
            return await self.peers.put(what, root)
        if isinstance(what, verbs.Filled):
            return str(await getattr(self._fillings, kind)(what, root))
        return await asyncio.to_thread(files.act, what, root)

    async def _fault(self, what: verbs.Fault) -> str:
        delay_s = self._timing.seconds(what.delay)
        if what.node is not None:
            return await self.faults.put(what, self._stack.layout.node_root(what.node), delay_s)
        if what.way == "api":
            raise ScenarioError("a bare machine has no API server that could fail; 'requires: [kubernetes]' skips this")
        assert self.bus is not None  # every scenario with such a step has one
        return self.bus.set(what, delay_s)

    async def close(self) -> None:
        """End what this world started beside its stack."""
        await self._looker.status.close()
        await self.faults.close()
        await self.peers.close()
        await self.added.close()

    async def ready(self, nodes: Sequence[str]) -> None:
        """Wait until the stack works: every node is ready, and the last states are known."""
        deadline = asyncio.get_running_loop().time() + READY_WITHIN_S
        while True:
            facts = self._listener.facts()
            up = {node.name for node in facts.nodes if node.ready}
            if facts.scheduler_known and facts.placement_known and up >= set(nodes):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(
                    f"of the nodes {', '.join(nodes)} only {sorted(up)} were ready in {READY_WITHIN_S:g} s"
                )
            await self.changed(0.1)

    async def keep(self, folder: Path) -> None:
        """Write logs, records and events into a folder."""
        await asyncio.to_thread(self._keep, folder)

    def _keep(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for source in (self._stack.layout.logs, self._stack.layout.state / "nodes"):
            if source.is_dir():
                shutil.copytree(
                    source, folder / source.name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.lock")
                )
        if self._stack.output.exists():
            shutil.copy(self._stack.output, folder / "up.log")
        keep_events(folder, self.heard)


class BareBackend:
    """Stacks on this machine."""

    name = "bare"
    abilities = frozenset({"bare", "gate", "health", "transfer"})
    promised: Mapping[str, float] = MappingProxyType({"t_move": 1.0})

    async def fitted(self, setting: Setting) -> Scenario:
        """Everything can be told here as it is written."""
        return setting.scenario

    @asynccontextmanager
    async def world(self, setting: Setting) -> AsyncIterator[BareWorld]:
        """Run a stack of its own for a scenario."""
        text, nodes = _nodes(setting)
        env = {**setting.scenario.options.env, **environment.settings(setting.timing)}
        async with _bus_proxy(setting.scenario) as bus:
            if bus is not None:
                env[SERVICES_NATS_URL] = bus.url
            async with self._running(BareStack(text, env), setting, nodes, bus) as world:
                yield world

    async def close(self) -> None:
        """Stories share nothing here."""

    @asynccontextmanager
    async def _running(
        self, stack: BareStack, setting: Setting, nodes: list[str], bus: faults.ServerProxy | None
    ) -> AsyncIterator[BareWorld]:
        try:
            url = await stack.start()
            async with Listener(url) as listener:
                world = BareWorld(stack, listener, setting, nodes)
                if bus is not None:
                    world.bus, bus.server = bus, url
                try:
                    await world.ready(nodes)
                    yield world
                finally:
                    await world.close()
        finally:
            left = await stack.end()
        if left:
            raise ScenarioError(f"the stack left something behind: {'; '.join(left)}")


@asynccontextmanager
async def _bus_proxy(scenario: Scenario) -> AsyncIterator[faults.ServerProxy | None]:
    """Give a proxy before NATS to a scenario that lets the bus fail."""
    if not any(step.fault is not None and step.fault.bus for _, step in scenario.all_steps()):
        yield None
        return
    async with faults.ServerProxy() as proxy:
        yield proxy


def _nodes(setting: Setting) -> tuple[str, list[str]]:
    scenario = setting.scenario
    if scenario.nodes_file is None:
        return environment.nodes_text(scenario.nodes), [spec.name for spec in scenario.nodes]
    path = setting.folder / scenario.nodes_file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"the nodes file {path} can't be read: {error}") from error
    return text, [item.name for item in load_documents(text, str(path))]
