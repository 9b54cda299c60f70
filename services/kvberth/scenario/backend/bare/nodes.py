"""Nodes that join a running stack, and new labels of nodes.

`kvberth up` knows its nodes at its start. A node that joins later has a runner and an agent of its own here, kept alive
as `up` would.
"""

import asyncio
from pathlib import Path

import yaml

from kvberth.scenario.backend.bare import environment
from kvberth.scenario.backend.bare.signals import Signals
from kvberth.scenario.backend.bare.stack import BareStack
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format import ServiceTarget, Target
from kvberth.scenario.format.verbs import Labels, NodeSpec

ENDS_WITHIN_S = 10.0
_AGAIN_S = 0.2


class AddedNodes:
    """The services of the nodes that joined."""

    def __init__(self, stack: BareStack) -> None:
        self._stack = stack
        self._keepers: list[asyncio.Task[None]] = []

    async def add(self, spec: NodeSpec) -> str:
        """Start a runner and an agent for a new node."""
        layout = self._stack.layout
        file, root = layout.node_file(spec.name), layout.node_root(spec.name)
        if file.exists():
            raise ScenarioError(f"the node {spec.name} is there already; give the new one another name")
        _write(file, environment.node_object(spec))
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        env = {
            "KVBERTH_NATS_URL": self._stack.url,
            "KVBERTH_STATE": str(layout.state),
            "KVBERTH_NODE": spec.name,
            "KVBERTH_ROOT": str(root),
            "KVBERTH_NODE_FILE": str(file),
        }
        for module in ("kvberth.bare.runner", "kvberth.node_agent"):
            self._keepers.append(asyncio.create_task(self._keep(module, env), name=f"{module} of {spec.name}"))
        return f"runner and agent of {spec.name} are started"

    async def label(self, what: Labels, signals: Signals) -> str:
        """Change what the node's file says and restart its runner, which announces it anew."""
        file = self._stack.layout.node_file(what.node)
        try:
            node = yaml.safe_load(file.read_text())
        except OSError as error:
            raise ScenarioError(f"there is no node {what.node} to label: {error}") from error
        labels = {**(node["metadata"].get("labels") or {}), **what.labels}
        node["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
        _write(file, node)
        await signals.restart(Target(service=ServiceTarget(name="runner", node=what.node)))
        return f"{what.node} announces its new labels"

    async def close(self) -> None:
        """End them."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def _keep(self, module: str, env: dict[str, str]) -> None:
        while True:
            process = await self._stack.module(module, env)
            try:
                await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            await asyncio.sleep(_AGAIN_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(ENDS_WITHIN_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _write(file: Path, node: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(node, sort_keys=False))
