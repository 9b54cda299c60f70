"""Tells the scheduler what this node has: at the start, at each reconnect, and when the scheduler is back."""

import asyncio

import structlog

from kvberth.bus import Bus, BusError, Liveness
from kvberth_schemas.requests import RegisterRequest, Reply
from kvberth_schemas.subjects import Service, Verb

LOOK_EVERY_S = 0.25
RETRY_S = 0.5

_log = structlog.get_logger(__name__)


async def keep_registered(bus: Bus, liveness: Liveness, request: RegisterRequest) -> None:
    """Register again and again, until cancelled."""
    while True:
        await _register(bus, request)
        await _until_new(bus, liveness)


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


async def _until_new(bus: Bus, liveness: Liveness) -> None:
    """Wait for the end of an interruption: of the connection, or of the scheduler's signs of life."""
    was_up = True
    while True:
        await liveness.changed(LOOK_EVERY_S)  # its timeout is the period in which the connection is looked at
        is_up = bus.connected and liveness.fresh(Service.SCHEDULER)
        if is_up and not was_up:
            return
        was_up = is_up
