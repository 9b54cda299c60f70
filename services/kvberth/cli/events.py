"""`kvberth events`: the bus as it speaks, one line per event."""

from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from kvberth.bare.stack.layout import Address
from kvberth.bus import Bus, Row
from kvberth.cli.connection import connected, layout_of, named_bus, run
from kvberth.cli.console import output
from kvberth.cli.following import Watch, while_it_runs
from kvberth.cli.options import State
from kvberth_schemas import subjects
from kvberth_schemas.events import PodScheduledV1, PodWaitingV1


def events(
    state: State = None,
    new: Annotated[bool, typer.Option("--new", help="Leave out the last states; show only what comes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Follow the events: first the last one of every subject, then what comes. End with Ctrl-C.

    Ends by itself when the kvberth that it follows has ended.
    """
    console, layout = output(), layout_of(state)
    notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

    async def follow(bus: Bus) -> None:
        async for row in bus.log_tail(subjects.EVENTS_PATTERN, "new" if new else "last"):
            console.print(json_line(row) if json else line(row), markup=not json)

    async def command() -> None:
        watch = Watch(layout, None if named_bus() else Address.read(layout))
        async with connected(layout) as bus:
            await while_it_runs(watch, lambda: bus.connected, notes.print, follow(bus))

    run(command())


def line(row: Row) -> str:
    """One event for a person: when, what, about what, where, and the event that led to it."""
    kind = row.envelope.type.removeprefix("kvberth.").removesuffix(".v1")
    cause = f" [dim]because of {row.envelope.cause}[/]" if row.envelope.cause else ""
    subject = escape(about(row))
    return f"{clock(row.envelope.time)} [bold]{kind:<18}[/] {subject} [dim]{row.envelope.id}[/]{cause}"


def json_line(row: Row) -> str:
    """One event for a program."""
    from json import dumps

    envelope = row.envelope
    return dumps(
        {
            "subject": str(row.subject),
            "sequence": row.sequence,
            "id": envelope.id,
            "type": envelope.type,
            "time": envelope.time.isoformat(),
            "source": envelope.source,
            "cause": envelope.cause,
            "data": row.message.model_dump(mode="json"),
        }
    )


def about(row: Row) -> str:
    """Name the thing that an event is about, and its node."""
    message, subject = row.message, row.subject
    if isinstance(message, PodScheduledV1):
        return f"{message.namespace}/{message.name} on {message.node}"
    if isinstance(message, PodWaitingV1):
        return f"{message.namespace}/{message.name}: {message.why}"
    name = getattr(message, "name", None) or getattr(message, "cache", None) or subject.object
    node = getattr(message, "node", None) or subject.node
    where = f" on {node}" if node else ""
    namespace = f"{subject.namespace}/" if subject.namespace else ""
    reason = getattr(message, "message", "") or getattr(message, "why", "")
    return f"{namespace}{name}{where}" + (f": {reason}" if reason else "")


def clock(time: datetime) -> str:
    """Spell a time of day in this machine's zone, to the millisecond."""
    return time.astimezone().strftime("%H:%M:%S.") + f"{time.microsecond // 1000:03d}"
