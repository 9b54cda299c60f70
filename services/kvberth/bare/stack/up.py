"""Runs the whole stack in the foreground and takes it down again, completely."""

import asyncio
import os
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import BinaryIO

from kvberth.bare.process import procfs
from kvberth.bare.stack.down import end_services, take_down
from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import Address, Layout
from kvberth.bare.stack.nats_health import keep_storing
from kvberth.bare.stack.nodes import write_node_file
from kvberth.bare.stack.ownership import check_state, make_root, mark_state
from kvberth.bare.stack.programs import nats_program, service_programs
from kvberth.bare.stack.supervisor import Supervisor
from kvberth.service import DirectoryLock, HeldError
from kvberth.service.lock import take
from kvberth.service.text_file import why
from kvberth_schemas.manifests import RawObject

SERVICES_NATS_URL = "KVBERTH_SERVICES_NATS_URL"
"""Environment of `up`: where the services find the bus, if something stands between them and its NATS server."""


class Stack:
    """NATS, the services, and a runner and an agent per node; as a context manager it lives as long as its block.

    Engines and caches that an earlier `up` left running are adopted by their runners; leaving the block ends them too,
    and removes the state directory and the socket roots.
    """

    def __init__(self, layout: Layout, nodes: Mapping[str, RawObject], env: Mapping[str, str] | None = None) -> None:
        """Prepare; entering starts it. ``env`` is added to every service's environment."""
        self._layout = layout
        self._nodes = nodes
        self._env = dict(env or {})
        self._supervisors: list[Supervisor] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lock: BinaryIO | None = None
        self.address: Address | None = None
        self.forgotten: list[str] = []
        """After the block: the manifests that went with the state directory."""

    @property
    def restarts(self) -> int:
        """How often services had to be started again."""
        return sum(supervisor.restarts for supervisor in self._supervisors)

    async def __aenter__(self) -> "Stack":
        """Start everything; returns before the services are ready.

        Raises:
            StackError: another stack uses the state directory, or a program is missing.
        """
        self._lock = _acquire(self._layout)
        await asyncio.to_thread(end_services, self._layout)  # what a killed `up` left: their settings may be old
        try:
            self._start()
        except OSError as error:
            await self._end()
            raise _unusable(self._layout, error) from error
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End everything, and remove the state directory and the socket roots."""
        await self._end()

    def _start(self) -> None:
        layout = self._layout
        port = _free_port(Address.read(layout))
        self.address = Address(
            f"nats://127.0.0.1:{port}", os.getpid(), procfs.start_ticks(os.getpid()), tuple(self._nodes)
        )
        for folder in (layout.nats, layout.logs, layout.records):
            folder.mkdir(parents=True, exist_ok=True)
        for name, node in self._nodes.items():
            write_node_file(layout.node_file(name), node)
            layout.node_root(name).mkdir(mode=0o700, exist_ok=True)
        self.address.write(layout)
        programs = [nats_program(layout, port)]
        bus = os.environ.get(SERVICES_NATS_URL) or self.address.nats_url
        programs += service_programs(layout, bus, self._nodes, self._env)
        self._supervisors = [Supervisor(program, layout) for program in programs]
        for supervisor in self._supervisors:
            supervisor.start()
        self._tasks = [asyncio.create_task(s.watch(), name=f"keep {s.name}") for s in self._supervisors]
        nats = self._supervisors[0]
        stores = keep_storing(layout, lambda: nats.pid, nats.end_life)
        self._tasks.append(asyncio.create_task(stores, name="whether NATS stores"))

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            self.forgotten = await asyncio.to_thread(take_down, self._layout)
        finally:
            if self._lock:
                self._lock.close()


def _acquire(layout: Layout) -> BinaryIO:
    remedy = "end it with 'kvberth down', or name another directory with --state"
    check_state(layout)
    try:
        lock = take(DirectoryLock(layout.lock, "'kvberth up'", remedy))
    except HeldError as error:
        raise StackError(str(error)) from error
    except OSError as error:
        raise _unusable(layout, error) from error
    try:
        mark_state(layout)
        make_root(layout.root)
    except OSError as error:
        lock.close()
        raise _unusable(layout, error) from error
    except StackError:
        lock.close()
        raise
    return lock


def _unusable(layout: Layout, error: OSError) -> StackError:
    reason = f"{error.filename or layout.state} {why(error)}"
    return StackError(f"the state directory {layout.state} can't be used: {reason}; name another with --state")


def _free_port(former: Address | None) -> int:
    """Give the port of the stack's former life if it is free, since clients may still know it; else any free one."""
    wanted = int(former.nats_url.rpartition(":")[2]) if former else 0
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise StackError("no TCP port is free on 127.0.0.1 for the NATS server")
