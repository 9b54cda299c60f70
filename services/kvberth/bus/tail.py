"""Follows messages one by one, for people who look on: `kvberth events`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Literal

from nats.js.api import DeliverPolicy

from kvberth.bus import decode
from kvberth.bus.connection import Connection
from kvberth.bus.consumer import Filter, open_consumer
from kvberth.bus.context import BusContext
from kvberth.bus.decode import Row
from kvberth.bus.errors import BusError
from kvberth.bus.patterns import stream_of
from kvberth.bus.pause import Pause
from kvberth.bus.streams import Streams

Start = Literal["last", "new", "all"]

_POLICIES = {"last": DeliverPolicy.LAST_PER_SUBJECT, "new": DeliverPolicy.NEW, "all": DeliverPolicy.ALL}


async def tail(
    connection: Connection, streams: Streams, context: BusContext, patterns: Sequence[str], start: Start
) -> AsyncGenerator[Row, None]:
    """Yield rows for ever; a lost connection only pauses it, and a recreated stream starts it over."""
    stream, pause, position, created = stream_of(patterns), Pause(), 0, None
    while True:
        session = await connection.session()
        present = await streams.known(stream)
        if present != created:
            if created is not None and start == "new":
                start = "all"  # on another stream everything is new
            created, position = present, 0
        policy, first = (DeliverPolicy.BY_START_SEQUENCE, position + 1) if position else (_POLICIES[start], None)
        what = Filter(stream=stream, patterns=patterns, policy=policy, start=first)
        try:
            async with open_consumer(session, what, context.settings.heartbeat_s) as consumer:
                while True:
                    delivery = await consumer.next()
                    if delivery is None:
                        continue
                    position = delivery.sequence
                    row = decode.read(delivery.subject, delivery.headers, delivery.body, delivery.sequence)
                    if isinstance(row, Row):
                        yield row
                    else:
                        context.metrics.count("unreadable", row.reason)
        except BusError:
            await asyncio.sleep(pause.next())
