"""The requests that the scheduler answers: which verb is which decision."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kvberth.bare.scheduler import commands
from kvberth.bare.scheduler.apply import Moment, apply
from kvberth.bare.scheduler.metrics import SchedulerMetrics
from kvberth.bare.scheduler.observe import Observer
from kvberth.bare.scheduler.results import refused
from kvberth.bare.scheduler.scheduler import NotStoredError, Scheduler
from kvberth.bare.scheduler.state import State
from kvberth.bus import Bus
from kvberth.service import ServiceError
from kvberth_schemas.model import Message
from kvberth_schemas.requests import (
    ApplyRequest,
    NodeRequest,
    ObjectRequest,
    RegisterRequest,
    Reply,
    Result,
    ScaleRequest,
    WorkloadReply,
    WorkloadRequest,
)
from kvberth_schemas.subjects import Verb

Decide = Callable[[State, Any, Moment], tuple[State, list[Result]]]
Handler = Callable[[Any], Awaitable[Message]]

ANSWER_WITHIN_S = 1.5
"""Askers wait for 2 s; a slow disk is told from a dead scheduler before that."""

_DECISIONS: dict[Verb, tuple[type[Message], Decide]] = {
    Verb.APPLY: (ApplyRequest, apply),
    Verb.DELETE: (ObjectRequest, lambda state, asked, at: commands.delete(state, asked, at.now)),
    Verb.SCALE: (ScaleRequest, lambda state, asked, _: commands.scale(state, asked)),
    Verb.CORDON: (NodeRequest, lambda state, asked, _: commands.cordon(state, asked.node, cordoned=True)),
    Verb.UNCORDON: (NodeRequest, lambda state, asked, _: commands.cordon(state, asked.node, cordoned=False)),
    Verb.DRAIN: (NodeRequest, lambda state, asked, _: commands.drain(state, asked.node)),
    Verb.DELETE_NODE: (NodeRequest, lambda state, asked, at: commands.delete_node(state, asked.node, at.now)),
}


@asynccontextmanager
async def answer_requests(
    bus: Bus, scheduler: Scheduler, observer: Observer, metrics: SchedulerMetrics
) -> AsyncIterator[None]:
    """Answer every verb while the block runs."""
    async with AsyncExitStack() as stack:
        for verb, (request, decide) in _DECISIONS.items():
            handler = _handler(Answerer(scheduler, metrics, verb), decide)
            await stack.enter_async_context(bus.respond(verb, request, handler))
        register = _registration(Answerer(scheduler, metrics, Verb.REGISTER), observer)
        await stack.enter_async_context(bus.respond(Verb.REGISTER, RegisterRequest, register))
        await stack.enter_async_context(bus.respond(Verb.WORKLOAD, WorkloadRequest, _live_read(scheduler)))
        yield


@dataclass(frozen=True, slots=True)
class Answerer:
    """Answers requests of one verb: by what was stored, or by the sentence why it was not."""

    scheduler: Scheduler
    metrics: SchedulerMetrics
    verb: Verb

    async def answer(
        self, decide: Callable[[State, Moment], tuple[State, list[Result]]], extra_s: float = 0.0
    ) -> Reply:
        """Have the scheduler change its state, and give the answer; a large request has `extra_s` seconds more."""
        results = tuple(await self._results(decide, ANSWER_WITHIN_S + extra_s))
        self.metrics.count_refusals(self.verb, results)
        return Reply(results=results)

    async def _results(
        self, decide: Callable[[State, Moment], tuple[State, list[Result]]], within_s: float
    ) -> list[Result]:
        try:
            async with asyncio.timeout(within_s):
                return await self.scheduler.change(decide)
        except NotStoredError as error:
            return [refused(str(self.verb), None, "", str(error))]
        except TimeoutError:
            slow = f"the disk has not stored it within {within_s:.1f} s and still may; look before you ask again"
            return [refused(str(self.verb), None, "", slow)]


def _handler(answerer: Answerer, decide: Decide) -> Handler:
    async def handle(asked: Message) -> Reply:
        extra_s = asked.extra_s if isinstance(asked, ApplyRequest) else 0.0
        return await answerer.answer(lambda state, moment: decide(state, asked, moment), extra_s)

    return handle


def _registration(answerer: Answerer, observer: Observer) -> Handler:
    async def handle(asked: RegisterRequest) -> Reply:
        observer.registered(asked.node)
        return await answerer.answer(lambda state, _: commands.register(state, asked))

    return handle


def _live_read(scheduler: Scheduler) -> Handler:
    async def handle(asked: WorkloadRequest) -> WorkloadReply:
        if not scheduler.began:
            raise ServiceError("The scheduler has not read the bus yet, so it does not know which pods there are.")
        return commands.workload(scheduler.state, asked)

    return handle
