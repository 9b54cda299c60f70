"""What looks at a living process make of its record: ready, or why not any more. Pure: asks nobody.

A cache that answered before and whose socket is gone or another's still serves the engines that are connected, and no
others: that is noted with its time, and `decide` weighs when it may be started anew.
"""

from dataclasses import dataclass

from kvberth.bare.runner.record import Record

UNREADY_AFTER = 3
"""Failed looks in a row, as the kubelet's default."""
FAST_S = 0.05
"""Between looks at something that is about to happen."""
SLOW_AFTER = 60
SLOW_S = 0.25
"""Between looks at something that has not happened in its first seconds."""
HEALTH_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one look."""

    ready: bool | None
    """None: the process could not be asked for a reason of our own, which says nothing about it."""
    why: str = ""
    """Why it is not ready, in words that stay the same while the reason does."""
    socket_lost: bool = False
    """The process lives, and its socket is not there or leads to somebody else."""


@dataclass(slots=True)
class Looks:
    """The looks at one life of a process."""

    failures: int = 0

    def take(self, record: Record, answer: Answer, now: float) -> dict[str, object]:
        """Take one more answer; give what changes in the record."""
        if answer.ready is None:
            return {}
        if record.at_gate:  # it is never ready, and what it waits for is its word
            return {} if answer.why in {"", record.unready} else {"unready": answer.why}
        self.failures = 0 if answer.ready else self.failures + 1
        patient = record.ready and self.failures < UNREADY_AFTER and not answer.socket_lost
        was_ready = record.ready or bool(record.unready)
        ready = answer.ready or patient
        found: dict[str, object] = {
            "ready": ready,
            "unready": answer.why if was_ready and not ready else "",
            "socket_lost_at": (record.socket_lost_at or now) if was_ready and answer.socket_lost else None,
        }
        return {name: value for name, value in found.items() if getattr(record, name) != value}

    @staticmethod
    def words(record: Record) -> str:
        """Say for the log how it is now."""
        return "process is ready" if record.ready else f"process is not ready: {record.unready}"

    def pause_s(self, record: Record) -> float:
        """Give the seconds until the next look."""
        if record.ready or record.unready:
            return HEALTH_EVERY_S
        return FAST_S if self.failures < SLOW_AFTER else SLOW_S
