"""What a service says of its bus where it is asked whether it is ready, and as it ends: one wording for all.

Pure but for reading flags; each answers None when it is content, as a readiness check does.
"""

from kvberth.bus.bus import Bus
from kvberth.bus.view import View
from kvberth.bus.writer import Writer


def taken_over(who: str, rule: str) -> str:
    """Say that another ``who`` has taken over, and by which ``rule`` there is one at most."""
    return (
        f"Another {who} with a higher term speaks on the bus, so this one ends and leaves everything as it is; {rule}."
    )


def lacks_connection(bus: Bus, url: str) -> str | None:
    """Say that the bus is not there, or that its server gives no streams."""
    if not bus.connected:
        return f"There is no connection to NATS at {url}."
    trouble = bus.streams.trouble
    return f"NATS at {url} gives no streams: {trouble}." if trouble else None


def lacks_reading(view: View, what: str) -> str | None:
    """Say that a view has not read all of it."""
    return None if view.complete else f"The {what} have not been read whole from the bus yet."


def lacks_saying(deposed: str, *writers: Writer) -> str | None:
    """Say what keeps writers from having said all that is known; ``deposed`` is the sentence of `taken_over`."""
    if any(writer.deposed for writer in writers):
        return deposed
    if unstored := sum(writer.unstored for writer in writers):
        return f"NATS stores nothing, as where its disk is full: {unstored} messages were tried at least three times."
    return None if all(writer.complete for writer in writers) else "What is known is not all on the bus yet."
