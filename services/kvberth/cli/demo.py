"""`kvberth demo`: the main job on this machine, from real manifests to real daemons, with its times."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import kvberth
from kvberth.bare.stack import Layout, Stack, read_nodes
from kvberth.bus import Bus, Row
from kvberth.cli.answers import ask, print_reply
from kvberth.cli.connection import connected
from kvberth.cli.console import output
from kvberth.cli.errors import CommandError
from kvberth.cli.manifests import apply_request
from kvberth.cli.overview import Overview, condition
from kvberth.cli.signals import on_signals, until_signal
from kvberth.cli.status import StatusReader, render, status_reader
from kvberth.cli.timeline import Step, timeline
from kvberth_schemas import subjects
from kvberth_schemas.events import ConditionStatus, PodReadyV1, PodScheduledV1
from kvberth_schemas.requests import ApplyRequest, NodeRequest, ObjectRequest
from kvberth_schemas.subjects import Verb

MANIFEST = Path("llama-3-8b-l20") / "engine-and-kvcache.yaml"
STEP_WITHIN_S = 60.0
MAX_ROWS = 10_000
"""The demo's own record of the bus is bounded; a move takes some thirty rows."""

Pod = PodScheduledV1 | PodReadyV1


def demo(
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            metavar="FILE",
            help="One engine Deployment of one replica and its KVCache; the default is that of a public bug report.",
        ),
    ] = None,
) -> None:
    """Show the main job on this machine in a minute: an engine moves to another node, and its cache follows.

    Starts a stack of its own: NATS, the services, two nodes with real vineyardd.

    Leaves nothing behind.
    """
    request = apply_request(manifest or example(MANIFEST))
    if asyncio.run(_run(output(), request)):
        raise typer.Exit(130)


def example(name: Path) -> Path:
    """Find an example in the installed package, else in the source tree.

    Raises:
        CommandError: it is in neither.
    """
    package = Path(kvberth.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / name).is_file():
            return folder / name
    raise CommandError(f"the example {name} is not installed; name a manifest with --manifest FILE")


async def _run(console: Console, manifest: ApplyRequest) -> bool:
    state = Path(tempfile.mkdtemp(prefix="kvberth-demo-"))
    layout = Layout.of(state)
    signalled = on_signals()
    async with Stack(layout, read_nodes(None)) as stack:
        interrupted = await until_signal(signalled, _tell(console, layout, stack, manifest))
        console.print("\nending engines, caches, services and NATS …", style="dim")
    console.print("No process, socket or directory is left behind.")
    return interrupted


async def _tell(console: Console, layout: Layout, stack: Stack, manifest: ApplyRequest) -> None:
    async with connected(layout) as bus, status_reader(bus) as reader, Record(bus) as record:
        await Story(console, bus, reader, record).tell(manifest, stack)


@dataclass
class Story:
    """The demo's steps, each with a deadline and a line that says what happened."""

    console: Console
    bus: Bus
    reader: StatusReader
    record: "Record"
    started: float = field(default_factory=time.monotonic)

    async def tell(self, manifest: ApplyRequest, stack: Stack) -> None:
        """Run the main job from an empty stack to a moved engine."""
        self.console.print("[bold]kvberth demo[/]: an engine moves to another node, and its KV cache follows.")
        self.console.print(
            "Without kvberth the cache stays on the old node, and the engine finds none beside it.\n", style="dim"
        )
        await self._until(self._nodes_ready, "the nodes did not become ready")
        nodes = " and ".join(node.name for node in self.reader.overview().nodes)
        self._say(f"NATS, placement and scheduler run, and the nodes {nodes}, each with a runner and an agent")
        engine = await self._apply(manifest)
        self.console.print(render(self.reader.overview(), datetime.now(UTC)))
        await self._move(engine)
        self.console.print(render(self.reader.overview(), datetime.now(UTC)))
        self._judge(engine, stack)

    async def _apply(self, manifest: ApplyRequest) -> Pod:
        self._say(f"apply {Path(manifest.source).name}, as it was reported")
        reply = await ask(self.bus, Verb.APPLY, manifest)
        print_reply(manifest, reply, self.console)
        if reply.refused:
            raise CommandError(f"{manifest.source} was refused; the lines above say what to change")
        await self._until(self._served, "the first engine was not served")
        engine = self._engine()
        self._say(f"engine {engine.name} and its cache are on {engine.node}, and the cache answers\n")
        return engine

    async def _move(self, engine: Pod) -> None:
        self.console.print()
        self._say(f"move the engine: cordon {engine.node}, delete pod {engine.name}")
        await ask(self.bus, Verb.CORDON, NodeRequest(node=engine.node))
        request = ObjectRequest(kind="Pod", namespace=engine.namespace, name=engine.name)
        await ask(self.bus, Verb.DELETE, request)
        await self._until(lambda: self._moved(engine), "the cache did not follow the engine")
        steps = timeline(self.record.rows, self._binding(engine).envelope.id)
        self.console.print(_timeline_table(steps))
        moved = self._engine()
        if moved.gate is not None and moved.gate.outcome == "open":
            self._say(f"engine {moved.name} waited at its gate and started once its cache had answered")
        self._say(f"the old engine has ended, and its cache on {engine.node} is gone\n")

    def _judge(self, old: Pod, stack: Stack) -> None:
        new = self._engine()
        if new.node == old.node or new.restarts or stack.restarts:
            raise CommandError(
                f"engine {new.name} is on {new.node} (it was on {old.node}) with {new.restarts} restarts, "
                f"and services were restarted {stack.restarts} times; expected another node and no restart"
            )
        self.console.print(
            f"\n[green]The cache followed the engine from {old.node} to {new.node}[/]; no engine restarted."
        )

    def _nodes_ready(self) -> bool:
        nodes = self.reader.overview().nodes
        return len(nodes) > 1 and all(node.ready for node in nodes) and self.reader.complete

    def _served(self) -> bool:
        overview = self.reader.overview()
        return (
            bool(overview.kvcaches) and _ready(overview) and bool(overview.pods) and all(p.ready for p in overview.pods)
        )

    def _moved(self, old: Pod) -> bool:
        overview = self.reader.overview()
        rows = [row for _, status in overview.kvcaches if status for row in status.nodes]
        gone = all(pod.uid != old.uid for pod in overview.pods)
        return gone and self._served() and [row.node for row in rows] == [self._engine().node]

    def _engine(self) -> Pod:
        return next(pod for pod in self.reader.overview().pods if isinstance(pod, Pod) and not pod.deleting)

    def _binding(self, old: Pod) -> Row:
        return next(
            row
            for row in self.record.rows
            if isinstance(row.message, PodScheduledV1) and row.message.uid != old.uid and not row.message.deleting
        )

    async def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + STEP_WITHIN_S
        while not holds():
            if time.monotonic() > deadline:
                self._give_up(otherwise)
            await self.reader.view.changed(0.1)

    def _give_up(self, otherwise: str) -> NoReturn:
        self.console.print(render(self.reader.overview(), datetime.now(UTC)))
        raise CommandError(f"{otherwise} within {STEP_WITHIN_S:g} s; the table above says what there is by now")

    def _say(self, what: str) -> None:
        self.console.print(f"[cyan]{time.monotonic() - self.started:5.1f} s[/]  {what}")


class Record:
    """Everything that was said on the bus while it is open, as an outsider sees it."""

    def __init__(self, bus: Bus) -> None:
        """Prepare; entering starts to listen."""
        self._bus = bus
        self._tasks: list[asyncio.Task[None]] = []
        self.rows: list[Row] = []

    async def __aenter__(self) -> "Record":
        """Listen to events and wants."""
        patterns = (subjects.EVENTS_PATTERN, subjects.WANTS_PATTERN)
        self._tasks = [asyncio.create_task(self._listen(pattern), name=f"record {pattern}") for pattern in patterns]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, pattern: str) -> None:
        async for row in self._bus.log_tail(pattern):
            if len(self.rows) < MAX_ROWS:
                self.rows.append(row)


def _ready(overview: Overview) -> bool:
    statuses = [status for _, status in overview.kvcaches]
    ready = [condition(status, "Ready") for status in statuses if status]
    return len(ready) == len(statuses) and all(c is not None and c.status is ConditionStatus.TRUE for c in ready)


def _timeline_table(steps: list[Step]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("AFTER BINDING", justify="right")
    table.add_column("WHO")
    table.add_column("WHAT", overflow="fold")
    for step in steps:
        table.add_row(f"{step.after_ms:.0f} ms", step.who, step.what)
    return table
