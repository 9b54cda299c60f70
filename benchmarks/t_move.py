"""How long a cache takes to follow its engine on the bare backend, and in which stage the time goes.

One engine moves to and fro between two nodes of a whole stack. T_move is the time from the binding of its new pod, as
the event says it, to the first register request answered to a witness that is not ours, by a daemon newly started.
"""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import nats
import structlog
from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

from benchmarks.results import Result, append
from benchmarks.stages import AnyHeard, Heard, binding, percentile, stages, summary
from kvberth.bare.stack import Layout, Stack, read_nodes
from kvberth.bus import Bus, BusSettings
from kvberth_schemas import registry, subjects
from kvberth_schemas.envelope import Envelope
from kvberth_schemas.events import CacheMovedV1, NodeChangedV1, PodReadyV1, PodScheduledV1
from kvberth_schemas.model import Message
from kvberth_schemas.requests import ApplyRequest, NodeRequest, ObjectRequest, Reply
from kvberth_schemas.subjects import Service, Verb

MANIFEST = Path(__file__).parents[1] / "examples" / "llama-3-8b-l20" / "engine-and-kvcache.yaml"
KVCACHE = "aibrix-kvcache-llama-3-8b-instruct"
NODES = ("l20-a", "l20-b")
MOVES = 100
TARGET_S = 1.0
STEP_WITHIN_S = 60.0
_STREAMS = {subjects.EVENTS_STREAM: subjects.EVENTS_PATTERN, subjects.WANTS_STREAM: subjects.WANTS_PATTERN}

T = TypeVar("T")


@dataclass
class Witness:
    """The process that asks the daemons."""

    process: asyncio.subprocess.Process
    lives: set[str] = field(default_factory=set)
    """Deployment ids of all daemons so far."""

    async def answered(self, socket: Path) -> datetime:
        """Wait until the daemon of a socket answers; RuntimeError unless it was newly started."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{socket}\n".encode())
        async with asyncio.timeout(STEP_WITHIN_S):
            line = (await self.process.stdout.readline()).decode()
        answered, life = line.split()
        if life in self.lives:
            raise RuntimeError(f"the daemon {life} at {socket} was not newly started")
        self.lives.add(life)
        return datetime.fromtimestamp(float(answered), UTC)


@dataclass
class Bench:
    """The stack under measurement, as its user and the witness see it."""

    layout: Layout
    bus: Bus
    witness: Witness
    heard: list[AnyHeard] = field(default_factory=list)
    """Of the present move."""
    uids: set[str] = field(default_factory=set)
    """Of all engines so far."""
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, message: Msg) -> None:
        """Hear one message of a stream."""
        envelope = Envelope.from_headers(message.headers)
        self.heard.append(Heard(envelope, registry.decode(envelope.type, message.data), message.metadata.timestamp))
        self._more.set()

    async def ask(self, verb: Verb, request: Message) -> None:
        """Ask the scheduler; RuntimeError when it refuses."""
        reply = await self.bus.request(verb, request, Reply, STEP_WITHIN_S)
        if reply.refused:
            raise RuntimeError(f"{verb} was refused: {reply.results}")

    async def until(self, look: Callable[[], T | None]) -> T:
        """Wait until a look at what was heard finds something; TimeoutError after a minute."""
        async with asyncio.timeout(STEP_WITHIN_S):
            while not (found := look()):
                self._more.clear()
                await self._more.wait()
        return found

    async def first(self) -> PodScheduledV1:
        """Apply the manifest; give the engine when it is ready and its cache has answered."""
        await self.until(lambda: set(NODES) <= _ready_nodes(self.heard))
        text = MANIFEST.read_text(encoding="utf-8")
        await self.ask(Verb.APPLY, ApplyRequest(text=text, source=MANIFEST.name))
        engine = (await self.bound()).message
        await self.witness.answered(self.socket(engine.node))
        await self.until(lambda: any(_is_ready(one, engine.uid) for one in self.heard))
        return engine

    async def move(self, engine: PodScheduledV1) -> tuple[PodScheduledV1, dict[str, float]]:
        """Move the engine to the other node; give it there, and the seconds of each stage."""
        (target,) = set(NODES) - {engine.node}
        await self.ask(Verb.UNCORDON, NodeRequest(node=target))
        await self.ask(Verb.CORDON, NodeRequest(node=engine.node))
        self.heard.clear()
        async with asyncio.TaskGroup() as group:
            answered = group.create_task(self.witness.answered(self.socket(target)))
            await self.ask(Verb.DELETE, ObjectRequest(kind="Pod", namespace=engine.namespace, name=engine.name))
        bound = await self.bound()
        took = await self.until(lambda: stages(self.heard, bound, answered.result()))
        await self.until(lambda: any(_is_ready(one, bound.message.uid) for one in self.heard))
        await self.until(lambda: any(isinstance(one.message, CacheMovedV1) for one in self.heard))
        return bound.message, took

    async def bound(self) -> Heard[PodScheduledV1]:
        """Wait until an engine that was never seen before is bound."""
        bound = await self.until(lambda: binding(self.heard, self.uids))
        self.uids.add(bound.message.uid)
        return bound

    def socket(self, node: str) -> Path:
        """Where the cache of a node answers."""
        return self.layout.node_root(node) / "default" / KVCACHE / "vineyard.sock"


async def measure(moves: int) -> list[dict[str, float]]:
    """Move the engine so often in a stack of its own; give the seconds of each move's stages."""
    async with bench() as made:
        engine = await made.first()
        took = []
        for number in range(moves):
            engine, stage_s = await made.move(engine)
            took.append(stage_s)
            sys.stderr.write(f"\rmove {number + 1} of {moves}: {sum(stage_s.values()) * 1000:.0f} ms ")
    sys.stderr.write("\n")
    return took


@asynccontextmanager
async def bench(env: Mapping[str, str] | None = None) -> AsyncIterator[Bench]:
    """Run a stack with two nodes, a witness, and a reader of both streams; ``env`` is added to its services'."""
    with tempfile.TemporaryDirectory(prefix="kvberth-bench-") as directory:
        layout = Layout.of(Path(directory) / "state")
        async with Stack(layout, read_nodes(None), env) as stack, witness() as seeing:
            assert stack.address is not None
            url = stack.address.nats_url
            async with Bus(BusSettings(url=url, service=Service.CLI, instance="bench")) as bus:
                made = Bench(layout, bus, seeing)
                async with asyncio.timeout(STEP_WITHIN_S):
                    for stream in _STREAMS:
                        await bus.streams.known(stream)
                async with listening(url, made):
                    yield made


@asynccontextmanager
async def witness() -> AsyncIterator[Witness]:
    """Run the witness."""
    argv, pipe = (sys.executable, "-m", "benchmarks.witness"), asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    try:
        yield Witness(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def listening(url: str, made: Bench) -> AsyncIterator[None]:
    """Hear the last message of every subject, and then all that comes."""
    connection = await nats.connect(url)
    try:
        last = DeliverPolicy.LAST_PER_SUBJECT
        for stream, pattern in _STREAMS.items():
            await connection.jetstream().subscribe(
                pattern, stream=stream, cb=made.take, ordered_consumer=True, deliver_policy=last
            )
        yield
    finally:
        await connection.close()


def main() -> None:
    """Measure, and append the results."""
    parser = argparse.ArgumentParser(description="Measure T_move on the bare backend.")
    parser.add_argument("--moves", type=int, default=MOVES)
    moves = parser.parse_args().moves
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    began, load = time.monotonic(), os.getloadavg()[0]
    took = asyncio.run(measure(moves))
    slowest = max(took, key=lambda stage_s: sum(stage_s.values()))
    totals = [sum(stage_s.values()) for stage_s in took]
    context = {
        "moves": moves,
        "stages": summary(took),
        "slowest_s": {name: round(seconds, 4) for name, seconds in slowest.items()},
        "cpus": os.cpu_count(),
        "load_before": round(load, 1),
        "took_s": round(time.monotonic() - began, 1),
    }
    for percent, target_s in ((50, None), (99, TARGET_S)):
        value = round(percentile(totals, percent), 4)
        result = Result(name=f"t_move_p{percent}_s", value=value, unit="s", target=target_s, context=context)
        sys.stdout.write(f"{append(result)}\n")


def _ready_nodes(heard: Sequence[AnyHeard]) -> set[str]:
    messages = [one.message for one in heard]
    return {message.name for message in messages if isinstance(message, NodeChangedV1) and message.ready}


def _is_ready(one: AnyHeard, uid: str) -> bool:
    return isinstance(one.message, PodReadyV1) and one.message.ready and one.message.uid == uid


if __name__ == "__main__":
    main()
