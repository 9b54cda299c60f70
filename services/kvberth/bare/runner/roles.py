"""What each role means: which command a process is run with, what its next life needs, whether it answers."""

import uuid
from dataclasses import dataclass
from pathlib import Path

from kvberth.bare.process.start import Command
from kvberth.bare.runner.caches import cache_answers, cache_command
from kvberth.bare.runner.engines import engine_answers, engine_command, free_port
from kvberth.bare.runner.gate import gate_command, gate_ending, what_it_waits_for
from kvberth.bare.runner.readiness import Answer
from kvberth.bare.runner.record import Record
from kvberth.bare.runner.transfer import transfer_answers, transfer_command
from kvberth.service.threads import in_thread
from kvberth_schemas.events import GateResult, ProcessRole


@dataclass(frozen=True, slots=True)
class NodeRoles:
    """The roles of one node: engines, caches and their transfer workers below its root."""

    root: Path
    logs: Path
    engine_argv: tuple[str, ...] = ()
    """The operator's command; empty for the stand-in."""

    def next_life(self, record: Record) -> Record:
        """Give a cache a new incarnation, an engine and a transfer worker a free port; a gate needs nothing.

        Raises:
            StartError: no port is free.
        """
        if record.key.role is ProcessRole.CACHE:
            return record.model_copy(update={"incarnation": str(uuid.uuid4())})
        if record.at_gate:
            return record
        return record.model_copy(update={"port": free_port()})

    def command(self, record: Record) -> Command:
        """Give the command of a life.

        Raises:
            StartError: something it needs is not there.
        """
        log = self._log(record)
        if record.at_gate:
            return gate_command(self.root, record, log)
        if record.key.role is ProcessRole.CACHE:
            return cache_command(self.root, record, log)
        if record.key.role is ProcessRole.TRANSFER:
            return transfer_command(self.root, record, log)
        return engine_command(self.root, record, self.engine_argv, log)

    async def answers(self, record: Record) -> Answer:
        """Look whether the process does what it is there for."""
        if record.key.role is ProcessRole.CACHE:
            return await cache_answers(self.root, record)
        if record.key.role is ProcessRole.TRANSFER:
            return await transfer_answers(self.root, record)
        if record.at_gate:
            log = self._log(record)
            return Answer(False, await in_thread(lambda: what_it_waits_for(log), f"reading {log}"))
        return Answer(await engine_answers(record))

    def gate_ending(self, record: Record, code: int | None) -> GateResult:
        """Give how a gate ended that exited with a code (None: not known). Reads a file: not for the event loop."""
        return gate_ending(self._log(record), code)

    def _log(self, record: Record) -> Path:
        """A pod's gate and its engine write into one log."""
        return self.logs / f"{record.key.stem}.log"
