"""Hears everything that is said on the bus, and knows the last states: what any onlooker of kvberth sees."""

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from kvberth.bus import Bus, BusSettings, Liveness, Row, View
from kvberth.scenario.facts import Facts, Heard, Pod
from kvberth_schemas import subjects
from kvberth_schemas.events import (
    KVCacheStatusV1,
    NodeChangedV1,
    PodReadyV1,
    PodRole,
    PodScheduledV1,
    PodWaitingV1,
    ProcessStartedV1,
)
from kvberth_schemas.subjects import EVENTS_STREAM, WANTS_STREAM, Entity, Service

MAX_HEARD = 200_000
"""A scenario's record of the bus is bounded; what comes later is not recorded, which `overflown` says."""

_STATES = (Entity.POD, Entity.NODE, Entity.STATUS, Entity.PROCESS)


def onlooker(url: str) -> BusSettings:
    """Give how an onlooker reaches a bus: with the key and the authority that the environment names, as any command."""
    return BusSettings(
        url=url,
        nkey_file=_file("KVBERTH_NATS_NKEY_FILE"),
        tls_ca=_file("KVBERTH_NATS_TLS_CA"),
        service=Service.CLI,
        instance="scenario",
    )


def _file(variable: str) -> Path | None:
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else None


class Listener:
    """One onlooker, as an async context manager."""

    def __init__(self, url: str, source: Service = Service.SCHEDULER) -> None:
        """`source` is who says what pods and nodes are."""
        self.settings = onlooker(url)
        self._source = source
        self.bus = Bus(self.settings)
        self.heard: list[Heard] = []
        self.overflown = False
        self.told: dict[int, ProcessStartedV1] = {}
        """What a runner last said of a pid; kept while the bus is away or has forgotten it."""
        self._view: View
        self._liveness: Liveness
        self._news = asyncio.Event()
        self._stack = AsyncExitStack()
        self._tails: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Begin to listen; the bus may come later."""
        await self._stack.enter_async_context(self.bus)
        self._liveness = await self._stack.enter_async_context(self.bus.liveness())
        patterns = [subjects.events_of(entity) for entity in _STATES]
        self._view = await self._stack.enter_async_context(self.bus.view(patterns))
        self._view.add_listener(self._name)
        for pattern, stream in ((subjects.EVENTS_PATTERN, EVENTS_STREAM), (subjects.WANTS_PATTERN, WANTS_STREAM)):
            self._tails.append(asyncio.create_task(self._tail(pattern, stream), name=f"hear {stream}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        for task in self._tails:
            task.cancel()
        await asyncio.gather(*self._tails, return_exceptions=True)
        await self._stack.aclose()

    async def changed(self, timeout_s: float) -> None:
        """Wait until something was said, at most so long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def facts(self) -> Facts:
        """Give what the bus says now."""
        messages = [row.message for row in self._view.rows.values()]
        pods: list[Pod] = [m for m in messages if isinstance(m, PodScheduledV1 | PodReadyV1 | PodWaitingV1)]
        return Facts(
            at=datetime.now(UTC),
            nodes=tuple(m for m in messages if isinstance(m, NodeChangedV1)),
            pods=tuple(pod for pod in pods if pod.role is PodRole.ENGINE),
            statuses=tuple(m for m in messages if isinstance(m, KVCacheStatusV1)),
            scheduler_known=self._known(self._source),
            placement_known=self._known(Service.PLACEMENT),
            heard=self.heard,
        )

    def _known(self, service: Service) -> bool:
        return self._view.complete and self._liveness.fresh(service)

    def _name(self, row: Row) -> None:
        if isinstance(row.message, ProcessStartedV1):
            self.told[row.message.pid] = row.message

    async def _tail(self, pattern: str, stream: str) -> None:
        async for row in self.bus.log_tail(pattern, "all"):
            if len(self.heard) < MAX_HEARD:
                self.heard.append(_heard(row, stream))
            else:
                self.overflown = True
            self._news.set()


def _heard(row: Row, stream: str) -> Heard:
    subject, message = row.subject, row.message
    name = getattr(message, "name", None) or getattr(message, "cache", None) or getattr(message, "pod_name", None)
    return Heard(
        time=row.envelope.time,
        id=row.envelope.id,
        subject=str(subject),
        type=row.envelope.type.removeprefix("kvberth.").removesuffix(".v1"),
        node=subject.node or getattr(message, "node", None),
        namespace=subject.namespace,
        name=str(name or subject.object),
        body=message.model_dump(mode="json"),
        cause=row.envelope.cause,
        stream=stream,
        sequence=row.sequence,
    )
