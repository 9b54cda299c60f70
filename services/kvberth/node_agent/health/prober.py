"""One proof: a canary goes in on one connection and is read on a second one. Says what was seen, judges nothing.

The second connection is opened for each proof, so that a register is part of it; the first one is kept, as an
engine's is. Every call has its own deadline, and nothing of a proof that was given up is left in the daemon.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import datetime
from statistics import median
from typing import TypeVar

from kvberth.node_agent.evidence import MAX_LAG_S, Evidence
from kvberth.node_agent.health.failures import seen_in
from kvberth.node_agent.health.leftovers import PATIENCE_S, Leftovers
from kvberth.node_agent.health.listener import Listener
from kvberth.node_agent.health.verdict import Failed, Late, NoEvidence, Observation, Proven
from kvberth.vineyard import Blob, Client, DaemonHung, KeptClient, VineyardError
from kvberth_schemas.events import HealthReason

CALL_S = 0.4
"""For each call of a proof."""
CANARY_BYTES = 64

T = TypeVar("T")


class Prober:
    """Proves one cache, one proof after the other; ``evidence`` tells how late our own loop was."""

    def __init__(self, path: str, evidence: Evidence, canary: Callable[[int], bytes] = os.urandom) -> None:
        """``canary`` gives so many bytes that nobody expects."""
        self._path = path
        self._evidence = evidence
        self._canary = canary
        self._writer = KeptClient(path)
        self._leftovers = Leftovers()
        self._proven: Listener | None = None
        self._closed = False
        self._calls: dict[str, list[float]] = {}

    @property
    def owed(self) -> int:
        """How many blobs of proofs that were given up wait for their deletion."""
        return self._leftovers.count

    def ended(self) -> bool:
        """Whether the daemon that was proven last has ended since; told once. Another one may be in its place."""
        now = Listener.at(self._path)
        if self._proven is None or now is None or now == self._proven:  # why there is none the next proof will tell
            return False
        self._proven = None
        return True

    def closed(self) -> bool:
        """Whether a daemon closed the connection that is kept; told once. The next one may answer already."""
        closed, self._closed = self._closed, False
        return closed

    def recall(self, proof: datetime) -> bool:
        """Take over a proof of an earlier life of this agent; whether the daemon of then is the one that listens."""
        now = Listener.at(self._path)
        if now is None or not now.since_before(proof):
            return False
        self._proven = now
        return True

    async def probe(self) -> Observation:
        """Try once; takes a few milliseconds, and at most one missed deadline."""
        self._calls = {"reader": [], "writer": []}
        self._let_go()
        listener = Listener.at(self._path)
        answered = False
        try:
            reader = await self._timed("reader", Client.connect(self._path, timeout_s=CALL_S))
            answered = True
            try:
                seen = await self._prove(reader)
                if isinstance(seen, Proven):
                    self._proven = listener
                return seen
            finally:
                await self._close(reader)
        except DaemonHung:
            if self._evidence.lagged(CALL_S):
                return NoEvidence("this agent's own event loop lagged, so that a missed deadline says nothing")
            return Late(answered, CALL_S)
        except VineyardError as error:
            return seen_in(error)

    async def aclose(self) -> None:
        """Close what is kept; what is left over in the daemon is given up."""
        await self._writer.aclose()
        await self._leftovers.aclose()

    async def _prove(self, reader: Client) -> Observation:
        self._let_go()  # again, for a loss just now: the next line would wait until all of its memory is free
        writer = await self._writer.client(timeout_s=CALL_S)
        canary = self._canary(CANARY_BYTES)
        blob = await self._timed("writer", self._created(writer))
        try:
            blob.buffer[:] = canary
            await self._timed("writer", writer.seal(blob.object_id, timeout_s=CALL_S))
            came_back = bytes(await self._timed("reader", reader.get(blob.object_id, timeout_s=CALL_S)))
            status = await self._timed("reader", reader.status(timeout_s=CALL_S))
            await self._timed("writer", writer.delete([blob.object_id], timeout_s=CALL_S))
        except BaseException:
            self._undo_later(reader, blob.object_id)
            raise
        if came_back != canary:
            return Failed(HealthReason.WRONG_BYTES, f"{self._path}: other bytes came back than went in")
        if not CANARY_BYTES <= status.memory_usage <= status.memory_limit:
            what = "says that less is in use than was just put in, or more than it has"
            return Failed(HealthReason.WRONG_ACCOUNTS, f"{self._path}: vineyardd {what}")
        took_s = sum(map(sum, self._calls.values()))
        typical_s = max(map(median, self._calls.values()))
        used, limit = status.memory_usage, status.memory_limit
        return Proven(status.deployment, took_s, self._certainly_s(typical_s, took_s), used, limit, typical_s)

    def _certainly_s(self, typical_s: float, took_s: float) -> float:
        """What of a call's typical time was the daemon's, and not our own loop's; 0 where nobody knows."""
        lag_s = self._evidence.lag_s(took_s)
        return 0.0 if lag_s > MAX_LAG_S else max(0.0, typical_s - lag_s)

    async def _created(self, writer: Client) -> Blob:
        """Create the canary; one that does not come in time is deleted when it does, for its id would be lost."""
        if self._leftovers.full:
            raise DaemonHung(self._path, "vineyardd has not made the canaries yet that it was asked for before")
        creating = asyncio.create_task(writer.create(CANARY_BYTES, timeout_s=PATIENCE_S), name="create a canary")
        try:
            await asyncio.wait({creating}, timeout=CALL_S)
        except BaseException:
            creating.cancel()
            raise
        if creating.done():
            return creating.result()
        self._writer.give_up()
        self._leftovers.undo(writer, creating)
        raise DaemonHung(self._path, f"vineyardd made no blob within {CALL_S:g} s")

    def _let_go(self) -> None:
        """Hold no memory of a daemon that is gone, however long no other one answers."""
        lost = self._writer.take_lost()
        if lost is not None:
            self._closed = self._closed or lost.ended
            self._leftovers.let_go(lost)

    async def _close(self, reader: Client) -> None:
        if self._leftovers.holds(reader):
            return
        if reader.closed:
            self._leftovers.let_go(reader)
        else:
            await reader.aclose()

    def _undo_later(self, reader: Client, object_id: int) -> None:
        """Delete a canary by a connection that is still open, so that it is the same daemon's."""
        self._let_go()
        holder = self._writer.give_up() or (None if reader.closed else reader)
        if holder is not None:
            self._leftovers.undo(holder, object_id)

    async def _timed(self, connection: str, call: Awaitable[T]) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await call
        self._calls[connection].append(loop.time() - began)
        return result
