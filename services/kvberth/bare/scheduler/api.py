"""The requests that the scheduler answers: which verb is which decision."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from kvberth.bare.scheduler import commands
from kvberth.bare.scheduler.apply import Moment, apply
from kvberth.bare.scheduler.observe import Observer
from kvberth.bare.scheduler.scheduler import Scheduler
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
async def answer_requests(bus: Bus, scheduler: Scheduler, observer: Observer) -> AsyncIterator[None]:
    """Answer every verb while the block runs."""
    async with AsyncExitStack() as stack:
        for verb, (request, decide) in _DECISIONS.items():
            await stack.enter_async_context(bus.respond(verb, request, _handler(scheduler, decide)))
        register = _registration(scheduler, observer)
        await stack.enter_async_context(bus.respond(Verb.REGISTER, RegisterRequest, register))
        await stack.enter_async_context(bus.respond(Verb.WORKLOAD, WorkloadRequest, _live_read(scheduler)))
        yield


def _handler(scheduler: Scheduler, decide: Decide) -> Handler:
    async def handle(asked: Message) -> Reply:
        results = await scheduler.change(lambda state, moment: decide(state, asked, moment))
        return Reply(results=tuple(results))

    return handle


def _registration(scheduler: Scheduler, observer: Observer) -> Handler:
    async def handle(asked: RegisterRequest) -> Reply:
        observer.registered(asked.node)
        return Reply(results=tuple(await scheduler.change(lambda state, _: commands.register(state, asked))))

    return handle


def _live_read(scheduler: Scheduler) -> Handler:
    async def handle(asked: WorkloadRequest) -> WorkloadReply:
        if not scheduler.began:
            raise ServiceError("The scheduler has not read the bus yet, so it does not know which pods there are.")
        return commands.workload(scheduler.state, asked)

    return handle
