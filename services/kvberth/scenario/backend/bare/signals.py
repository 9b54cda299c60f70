"""Kills, pauses and restarts the processes of a bare stack, and waits for what that leads to."""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from kvberth.scenario.backend.bare import kernel
from kvberth.scenario.backend.bare.look import Looker
from kvberth.scenario.backend.bare.stack import BareStack
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.facts import Life
from kvberth.scenario.format import Target
from kvberth.scenario.judge.lives import resolve

ENDS_WITHIN_S = 15.0
BACK_WITHIN_S = 30.0
_POLL_S = 0.01
_DISK = "the disk of NATS"
_NODE_SERVICES = frozenset({"runner", "node_agent"})


@dataclass
class Signals:
    """What was done to the processes of one stack."""

    stack: BareStack
    looker: Looker
    down: dict[str, list[int]] = field(default_factory=dict)
    """The paused services of lost nodes."""
    stopped: set[str] = field(default_factory=set)
    """What is kept away by a paused `up`."""

    async def kill(self, target: Target, name: str) -> str:
        """Send a signal, and wait for the end of that life."""
        life = self._one(target)
        _send(life, signal.Signals[f"SIG{name}"])
        await self._until_gone([life.pid])
        if target.kind == "up" and self.stack.up is not None:
            await self.stack.up.wait()  # the kernel has said so, asyncio hears of it a moment later
        return str(life)

    async def pause(self, target: Target) -> str:
        """Stop a process, until the kernel says that it has stopped."""
        life = self._one(target)
        _send(life, signal.SIGSTOP)
        await _until(lambda: self._is_paused(life.pid), f"{life} did not stop", ENDS_WITHIN_S)
        return str(life)

    async def resume(self, target: Target) -> str:
        """Let a process go on."""
        life = self._one(target)
        _send(life, signal.SIGCONT)
        return str(life)

    async def restart(self, target: Target) -> str:
        """End a process in order and wait for its next life; `up` is killed and started again."""
        if target.kind == "up":
            if resolve(target, self.looker.lives()):
                await self.kill(target, "KILL")
            await self.stack.start()
            return "another 'kvberth up' runs"
        life = self._one(target)
        _send(life, signal.SIGTERM)
        await self._until_gone([life.pid])
        await self._until_back(target, {life.pid})
        return f"{life} ended, the next life is there"

    async def stop(self, target: Target) -> str:
        """Kill a service or NATS while its `up` is paused, so that nobody starts it again."""
        if target.kind not in {"service", "nats"}:
            raise ScenarioError(f"{target} can't be stopped, its runner starts it again; 'pause' it, or kill it")
        life = self._one(target)
        self._pause_up()
        self.stopped.add(str(target))
        _send(life, signal.SIGKILL)
        await self._until_gone([life.pid])
        return f"{life} is dead; while it is kept away nothing else is started again either"

    async def start(self, target: Target) -> str:
        """Let `up` start what was stopped."""
        if str(target) not in self.stopped:
            raise ScenarioError(f"{target} was not stopped; 'start' ends a 'stop'")
        self.stopped.discard(str(target))
        if self.stopped:
            return f"waits for {', '.join(sorted(self.stopped))}, which are still stopped"
        self._resume_up()
        await self._until_back(target, set())
        return f"{target} runs again"

    async def disk(self, state: str) -> str:
        """Let every write of NATS fail (``full``), or let them pass (``free``).

        `up` is held in between: it would start another NATS, for which the disk has room.
        """
        if state == "full":
            life = self._one(Target(nats=True))
            self._pause_up()
            self.stopped.add(_DISK)
            _limit(life, 1)
            return str(life)
        if _DISK not in self.stopped:
            raise ScenarioError("the disk of NATS is not full; 'disk: free' ends a 'disk: full'")
        found = resolve(Target(nats=True), self.looker.lives())  # none, where a write that failed has ended it
        for life in found:
            _limit(life, resource.RLIM_INFINITY)
        self.stopped.discard(_DISK)
        if not self.stopped:
            self._resume_up()
        return ", ".join(map(str, found)) or "no NATS runs, 'up' starts another one"

    async def wipe_nats(self) -> str:
        """Kill NATS and remove its files before it is started again."""
        life = self._one(Target(nats=True))
        self._pause_up()
        try:
            _send(life, signal.SIGKILL)
            await self._until_gone([life.pid])
            await asyncio.to_thread(shutil.rmtree, self.stack.layout.nats)
        finally:
            if not self.stopped:
                self._resume_up()
        return "NATS has lost everything"

    async def node_down(self, node: str) -> str:
        """Everything of a node dies: its services are paused (else `up` starts them again), the rest is killed."""
        lives = [life for life in self.looker.lives() if life.node == node]
        services = [life for life in lives if life.role in _NODE_SERVICES]
        if not services:
            raise ScenarioError(
                f"no runner and no agent of a node {node} run; nodes are {', '.join(self.looker.nodes)}"
            )
        for life in services:
            _send(life, signal.SIGSTOP)
        await _until(lambda: all(self._is_paused(life.pid) for life in services), f"{node} did not stop", ENDS_WITHIN_S)
        self.looker.hidden |= {life.pid for life in services}
        self.down[node] = [life.pid for life in services]
        rest = [life for life in self.looker.lives() if life.node == node]
        for life in rest:
            _send(life, signal.SIGKILL, group=True)
        await self._until_gone([life.pid for life in rest])
        return f"{len(rest)} engines and caches of {node} are dead"

    async def node_up(self, node: str) -> str:
        """The lost node's services end for good, and their supervisor starts them anew."""
        pids = self.down.pop(node, None)
        if pids is None:
            raise ScenarioError(f"the node {node} is not down; 'node_up' ends a 'node_down'")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._until_gone(pids)
        self.looker.hidden -= set(pids)

        def back() -> bool:
            roles = {life.role for life in self.looker.lives() if life.node == node}
            return roles >= _NODE_SERVICES

        await _until(back, f"runner and agent of {node} are not there again", BACK_WITHIN_S)
        return f"runner and agent of {node} run again"

    def _one(self, target: Target) -> Life:
        lives = self.looker.lives()
        found = resolve(target, lives)
        if len(found) == 1:
            return found[0]
        there = ", ".join(str(life) for life in lives if life.role == (found[0].role if found else _role(target)))
        raise ScenarioError(f"{target} is {len(found)} processes, where one is meant; there are: {there or 'none'}")

    def _is_paused(self, pid: int) -> bool:
        found = [one for one in kernel.processes(self.stack.known) if one.pid == pid]
        return not found or found[0].state == "T"

    def _pause_up(self) -> None:
        if self.stack.up is None or self.stack.up.returncode is not None:
            raise ScenarioError("'kvberth up' does not run, so nothing has to be kept away; use 'kill'")
        self.stack.up.send_signal(signal.SIGSTOP)

    def _resume_up(self) -> None:
        if self.stack.up is not None and self.stack.up.returncode is None:
            self.stack.up.send_signal(signal.SIGCONT)

    async def _until_gone(self, pids: list[int]) -> None:
        await _until(lambda: not any(map(kernel.is_alive, pids)), f"processes {pids} live on", ENDS_WITHIN_S)

    async def _until_back(self, target: Target, former: set[int]) -> None:
        def back() -> bool:
            return any(life.pid not in former for life in resolve(target, self.looker.lives()))

        await _until(back, f"{target} did not come back", BACK_WITHIN_S)


def _send(life: Life, number: signal.Signals, *, group: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(life.pid, number)
        else:
            os.kill(life.pid, number)


def _limit(life: Life, most_bytes: int) -> None:
    """Set to how many bytes a file of a process may grow; one that has just died needs none."""
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))


def _role(target: Target) -> str:
    return str(target.value.name) if target.kind == "service" else target.kind


async def _until(holds: Callable[[], bool], otherwise: str, within_s: float) -> None:
    """Poll what only the kernel knows."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not holds():
        if asyncio.get_running_loop().time() > deadline:
            raise ScenarioError(f"{otherwise} after {within_s:g} s")
        await asyncio.sleep(_POLL_S)
