"""Finds out what expectations are about on a bare stack, and only that. Changes nothing."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kvberth.scenario.backend import probes
from kvberth.scenario.backend.asked import StatusAsked
from kvberth.scenario.backend.bare import kernel
from kvberth.scenario.backend.bare.stack import BareStack
from kvberth.scenario.backend.listener import Listener
from kvberth.scenario.facts import Answer, Facts, Life, PathFact, Place, Readiness, Sample
from kvberth.scenario.format import Expectation, Target
from kvberth.scenario.judge.lives import resolve
from kvberth_schemas import names
from kvberth_schemas.events import ProcessStartedV1

_NEED_LIVES = frozenset({"same", "changed", "lives", "process", "memory", "reaches", "log", "metric"})


class Looker:
    """Looks at one stack."""

    def __init__(self, stack: BareStack, listener: Listener, nodes: Iterable[str]) -> None:
        self._stack = stack
        self._listener = listener
        self.nodes = list(nodes)
        """Every node that ever was there: its root is looked at even after it was deleted."""
        self.status = StatusAsked(lambda: stack.asked("status"))
        self.hidden: set[int] = set()
        """Processes that count as dead: those of a lost node that only stand in the supervisor's way."""

    async def look(self, expectations: Sequence[Expectation]) -> Facts:
        """Give the facts as they are now."""
        parts = [part for item in expectations for part in item.parts()]
        kinds = {part.kind for part in parts}
        facts = self._listener.facts()
        if "cli" in kinds:
            self.status.ask()
            facts = replace(facts, printed=self.status.printed)
        if kinds & _NEED_LIVES:
            facts = replace(facts, lives=tuple(self.lives()))
        places = {place for part in parts for place in self._places(part, facts)}
        if places:
            facts = replace(facts, answers=await probes.ask_places(places, self._stack.layout.root))
        given = {life.socket for life in facts.lives if life.socket} if "reaches" in kinds else set()
        if given:
            facts = replace(facts, given=await self._ask_given(given))
        facts = replace(
            facts,
            paths=self._paths(part.value for part in parts if part.kind == "path"),
            metrics=await self._metrics([part.value.of for part in parts if part.kind == "metric"], facts.lives),
            readiness={str(p.value.of): await self._readiness(p.value.of) for p in parts if p.kind == "ready"},
            logs={str(p.value.of): self.log(p.value.of, facts.lives) for p in parts if p.kind == "log"},
        )
        return replace(facts, at=datetime.now(UTC))  # what was asked for was true by now, not when the look began

    def lives(self) -> list[Life]:
        """Give what the kernel runs, with the names that the bus gives to engines."""
        deleting = {pod.uid for pod in self._listener.facts().pods if pod.deleting}
        seen = [life for life in kernel.lives(self._stack.known) if life.pid not in self.hidden]
        return [_named(life, self._listener.told.get(life.pid), deleting) for life in seen]

    def log(self, target: Target, lives: Sequence[Life]) -> Sequence[str] | str:
        """Give the lines of a target's log, or why there is none."""
        layout = self._stack.layout
        if target.kind == "up":
            return probes.read_lines(self._stack.output)
        if target.kind == "nats":
            return probes.read_lines(layout.logs / "nats.log")
        if target.kind == "service":
            return probes.read_lines(layout.logs / f"{_service_stem(target)}.log")
        found = resolve(target, lives) or self._last_life(target)
        if len(found) != 1:
            return f"{target} is {len(found)} processes; a log is one's"
        stem = f"{found[0].role}.{names.encode(found[0].namespace or '')}.{names.encode(found[0].owner)}"
        folder = layout.state / "nodes" / names.encode(found[0].node or "") / "logs"
        return probes.read_lines(folder / f"{stem}.log")

    def _last_life(self, target: Target) -> list[Life]:
        """Give the one that was last said to run, when none does any more: its log is still there."""
        told = reversed(self._listener.told.values())
        ended = (_named(Life(process.role, process.pid), process, set()) for process in told)
        return [life for life in ended if resolve(target, [life])][:1]

    def _places(self, part: Expectation, facts: Facts) -> Iterable[Place]:
        value: Any = part.value
        if part.kind in {"caches", "reaches"}:
            return [Place(node, value.namespace, value.kvcache) for node in self.nodes]
        if part.kind == "socket":
            return [Place(value.node, value.namespace, value.kvcache)]
        if part.kind in {"same", "changed"}:
            return [
                Place(life.node or "", life.namespace or "", life.owner) for life in facts.lives if life.role == "cache"
            ]
        return []

    async def _ask_given(self, given: set[str]) -> dict[str, Answer]:
        ordered = sorted(given)
        answers = await asyncio.gather(*(probes.ask(Path(path)) for path in ordered))
        return dict(zip(ordered, answers, strict=True))

    def _paths(self, wanted: Iterable[Any]) -> dict[tuple[str, str], PathFact]:
        return {
            (item.node, item.path): probes.look_at(self._stack.layout.node_root(item.node) / item.path)
            for item in wanted
        }

    async def _metrics(self, targets: Sequence[Target], lives: Sequence[Life]) -> dict[str, Sequence[Sample] | str]:
        found: dict[str, Sequence[Sample] | str] = {}
        for target in targets:
            address = self._address(target, lives)
            told = f"{target} says no address"
            found[str(target)] = await probes.scrape(address) if address else told
        return found

    async def _readiness(self, target: Target) -> Readiness | str:
        address = self._address(target, self.lives() if target.kind == "worker" else ())
        return await probes.readyz(address) if address else f"{target} says no address"

    def _address(self, target: Target, lives: Sequence[Life]) -> str | None:
        if target.kind == "service":
            return probes.service_address(self._stack.layout.state / "services", _address_name(target))
        name = "KVBERTH_HTTP_PORT" if target.kind == "worker" else "KVBERTH_ENGINE_PORT"
        ports = [kernel.environment(life.pid).get(name) for life in resolve(target, lives)]
        return f"127.0.0.1:{ports[0]}" if len(ports) == 1 and ports[0] else None


def _named(life: Life, process: ProcessStartedV1 | None, deleting: set[str]) -> Life:
    """Give an engine, or its gate, the names that its runner says."""
    if process is None or (life.role != "engine" and life.node is not None):
        return life
    return replace(
        life,
        node=process.node,
        namespace=process.namespace,
        owner=process.owner,
        name=process.name,
        workload=(process.workload or "").partition("/")[2],
        deleting=process.owner in deleting,
    )


def _service_stem(target: Target) -> str:
    """Name a service's log as the stack does."""
    service = target.value
    return f"{service.name}-{names.encode(service.node)}" if service.node else str(service.name)


def _address_name(target: Target) -> str:
    """Name a service's address file as the service does."""
    service = target.value
    return quote(f"{service.name}-{service.node}" if service.node else service.name, safe="")
