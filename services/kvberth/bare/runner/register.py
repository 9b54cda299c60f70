"""Tells the scheduler what this node has: at the start, at each reconnect, and when the scheduler is back."""

import asyncio

import structlog

from kvberth.bus import Bus, BusError, Liveness, View
from kvberth_schemas.requests import RegisterRequest, Reply
from kvberth_schemas.subjects import Service, Verb

LOOK_EVERY_S = 0.25
RETRY_S = 0.5
AGAIN_S = 30.0
"""A scheduler that lost its directory and was back within the 5 s of freshness is told so late at the latest."""

_log = structlog.get_logger(__name__)


async def keep_registered(bus: Bus, liveness: Liveness, view: View, request: RegisterRequest) -> None:
    """Register again and again, until cancelled."""
    while True:
        generation = view.generation
        await _register(bus, request)
        await _until_new(liveness, view, generation)


async def _register(bus: Bus, request: RegisterRequest) -> None:
    """Ask until it is answered."""
    said = ""
    while True:
        try:
            reply = await bus.request(Verb.REGISTER, request, Reply)
        except BusError as error:
            sentence = str(error)
        else:
            if not reply.refused:
                _log.info("node is registered", node=request.node)
                return
            sentence = "; ".join(result.sentence for result in reply.results if result.sentence)
        if sentence != said:  # tried twice a second, said once
            said = sentence
            _log.warning("node is not registered yet", node=request.node, reason=sentence)
        await asyncio.sleep(RETRY_S)


async def _until_new(liveness: Liveness, view: View, generation: int) -> None:
    """Wait until the scheduler may have forgotten: a reconnect, its return from silence, or just half a minute."""
    loop = asyncio.get_running_loop()
    again_at = loop.time() + AGAIN_S
    was_fresh = True
    while loop.time() < again_at:
        await liveness.changed(LOOK_EVERY_S)  # its timeout is the period of the other looks
        is_fresh = liveness.fresh(Service.SCHEDULER)
        if view.generation != generation or (is_fresh and not was_fresh):
            return
        was_fresh = is_fresh
