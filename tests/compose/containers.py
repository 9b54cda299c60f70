"""The containers of docker-compose.yml as a user handles them, and the bus as this machine sees it."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from kvberth.bus import Bus, BusSettings
from kvberth.cli.overview import Pod, condition
from kvberth.cli.status import StatusReader, render, status_reader
from kvberth_schemas.events import ConditionStatus
from kvberth_schemas.subjects import Service
from support.ports import free_port

REPOSITORY = Path(__file__).parents[2]
MANIFEST = REPOSITORY / "examples" / "llama-3-8b-l20" / "engine-and-kvcache.yaml"
SOCKET = "/var/run/vineyard-kubernetes/default/aibrix-kvcache-llama-3-8b-instruct/vineyard.sock"
NODES = ("l20-a", "l20-b", "l20-c")
SERVICES = ("nats", "placement", "scheduler", *(f"{part}-{node}" for node in NODES for part in ("runner", "agent")))

WITNESS = """
import socket, sys
socket.socket(socket.AF_UNIX).connect(sys.argv[1]) # the official client would try for ten seconds
import vineyard
print(vineyard.connect(sys.argv[1]).instance_id)
"""
"""What a stranger with the official client sees."""


def run(*command: str | Path, within_s: float, stdin: str | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command; its output, or an AssertionError with it when it fails."""
    done = subprocess.run(
        command,
        input=stdin,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


@dataclass
class Containers:
    """One project of podman-compose, with an own name and an own port for NATS."""

    program: Path
    image: str
    project: str = field(default_factory=lambda: f"kvberth-test-{os.getpid()}")
    port: int = field(default_factory=free_port)

    def __call__(self, *arguments: str, within_s: float = 60.0, stdin: str | None = None) -> str:
        """Run podman-compose."""
        command = (self.program, "--file", REPOSITORY / "docker-compose.yml", "--project-name", self.project)
        env = {"KVBERTH_IMAGE": self.image, "KVBERTH_NATS_PORT": str(self.port)}
        return run(*command, *arguments, within_s=within_s, stdin=stdin, env=env)

    def kvberth(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a `kvberth` command in the scheduler's container, as the documents say."""
        return self("exec", "-T", "scheduler", "kvberth", *arguments, stdin=stdin)

    def left(self) -> list[str]:
        """Name the containers and volumes of the project."""
        mine = f"name={self.project}_"
        containers = run("podman", "ps", "--all", "--filter", mine, "--format", "{{.Names}}", within_s=30)
        volumes = run("podman", "volume", "ls", "--filter", mine, "--format", "{{.Name}}", within_s=30)
        return containers.split() + volumes.split()

    def answers(self, node: str) -> bool:
        """Whether a cache on a node answers the official client."""
        container = f"{self.project}_runner-{node}_1"
        asked = ("podman", "exec", container, "python", "-c", WITNESS, SOCKET)
        return subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode == 0


@dataclass
class Seen:
    """What the bus says, read from outside the containers."""

    reader: StatusReader

    def engine(self) -> Pod:
        """Give the one engine that is not deleting."""
        (found,) = (pod for pod in self.reader.overview().pods if not pod.deleting)
        return found

    def nodes_ready(self) -> bool:
        """Whether all nodes are."""
        return [node.name for node in self.reader.overview().nodes if node.ready] == list(NODES)

    def served(self) -> bool:
        """Whether everything is known, all nodes are ready, and the one engine has one cache: beside it."""
        overview = self.reader.overview()
        if not self.reader.complete or not self.nodes_ready() or len(overview.pods) != 1 or len(overview.kvcaches) != 1:
            return False
        (pod,) = overview.pods
        ((_, status),) = overview.kvcaches
        ready = condition(status, "Ready") if status else None
        return (
            bool(pod.ready)
            and status is not None
            and ready is not None
            and ready.status is ConditionStatus.TRUE
            and status.engines == status.engines_served == 1
            and [row.node for row in status.nodes] == [pod.node]
        )

    async def until(self, holds: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait until a condition holds.

        Raises:
            AssertionError: with the status as a person sees it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not holds():
            if loop.time() > deadline:
                console = Console(width=160)
                with console.capture() as text:
                    console.print(render(self.reader.overview(), datetime.now(UTC)))
                raise AssertionError(f"{what}: not within {within_s:g} s\n{text.get()}")
            await self.reader.liveness.changed(0.2)


@asynccontextmanager
async def seen_from_outside(containers: Containers) -> AsyncIterator[Seen]:
    """Follow the bus by the published port."""
    url = f"nats://127.0.0.1:{containers.port}"
    async with Bus(BusSettings(url=url, service=Service.CLI, instance="test")) as bus, status_reader(bus) as reader:
        yield Seen(reader)
