"""`kvberth status [-w]`: what is where, and what every KVCache says of itself."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps
from typing import Annotated, NoReturn

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from kvberth.bare.stack.layout import Layout
from kvberth.bus import Bus, Liveness, View
from kvberth.bus.skews import sentence as clock_sentence
from kvberth.cli.connection import connected, layout_of, run
from kvberth.cli.console import output
from kvberth.cli.errors import CommandError
from kvberth.cli.options import State
from kvberth.cli.overview import (
    Overview,
    ended_lines,
    engine_table,
    kvcache_table,
    node_table,
    pretended_lines,
    silence_lines,
)
from kvberth.cli.told import told_lines
from kvberth.cli.vouched import vouched
from kvberth_schemas import subjects
from kvberth_schemas.subjects import Entity, Service

COMPLETE_WITHIN_S = 5.0
REDRAW_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class StatusReader:
    """The last states on the bus, and who is alive."""

    view: View
    liveness: Liveness

    def overview(self) -> Overview:
        """Give the present overview."""
        clocks = sorted(clock_sentence(subject, ahead_s) for subject, ahead_s in self.liveness.skews.items())
        return Overview.of((row.message for row in self.view.rows.values()), self.silent(), clocks)

    @property
    def complete(self) -> bool:
        """Whether every last state is here and placement and the scheduler are fresh."""
        return self.view.complete and not self.silent()

    async def until_complete(self, within_s: float = COMPLETE_WITHIN_S) -> None:
        """Wait for the last state of everything, for so many seconds.

        Raises:
            CommandError: the streams are not there, or stay silent.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not self.complete:
            if loop.time() > deadline:
                if self.view.complete:
                    return  # the table then says who is silent
                raise CommandError(f"the bus answers, but its streams were not complete within {within_s:g} s")
            await self.liveness.changed(0.2)

    def silent(self) -> dict[str, float | None]:
        """Give the seconds since the last word of each service that is silent; None: never heard."""
        services = (Service.PLACEMENT, Service.SCHEDULER)
        return {service.value: self.liveness.age_s(service) for service in services if not self.liveness.fresh(service)}


@asynccontextmanager
async def status_reader(bus: Bus) -> AsyncIterator[StatusReader]:
    """Open the views that a status needs."""
    entities = (Entity.SPEC, Entity.STATUS, Entity.POD, Entity.NODE, Entity.PROCESS)
    async with bus.liveness() as liveness, bus.view([subjects.events_of(entity) for entity in entities]) as view:
        yield StatusReader(view, liveness)


def status(
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Stay and follow the changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object; with --watch one a line.")] = False,
    state: State = None,
) -> None:
    """Show every KVCache, engine and node, and what is wrong with it.

    An engine is served while the cache beside it answers.

    What a KVCache says of itself stands below its table; below the engines' why each last ended, and its log.
    """

    async def command() -> None:
        layout = layout_of(state)
        async with connected(layout) as bus, status_reader(bus) as reader:
            await reader.until_complete()
            if as_json:
                await _print_json(reader, layout, watch=watch)
                return
            for note in layout.notes(time.time()):
                output().print(Text(note, "yellow"))
            if watch:
                await _follow(reader)
            else:
                output().print(render(reader.overview(), datetime.now(UTC)))

    run(command())


def render(overview: Overview, now: datetime) -> RenderableType:
    """Draw the tables."""
    overview = vouched(overview)
    tables: list[RenderableType] = [
        kvcache_table(overview, now),
        *(Text(line) for line in told_lines(overview, now)),
        "",
        engine_table(overview),
        *(Text(line, "yellow") for line in ended_lines(overview)),
        *(Text(line, "dim") for line in pretended_lines(overview)),
        "",
        node_table(overview),
    ]
    if not overview.kvcaches:
        tables[0] = "no KVCache is applied; 'kvberth apply -f FILE' takes one"
    return Group(*(Text(line, "yellow") for line in (*silence_lines(overview), *overview.clocks)), *tables)


async def _print_json(reader: StatusReader, layout: Layout, *, watch: bool) -> None:
    while True:
        shown = reader.overview()
        document = shown.document()
        output().print(dumps({**document, "notes": layout.notes(time.time())}), markup=False)
        if not watch:
            return
        await _until_changed(reader, shown)


async def _until_changed(reader: StatusReader, shown: Overview) -> None:
    """Wait for a change, silence included, and for a while before it: what changes meanwhile is shown together."""
    await asyncio.sleep(REDRAW_EVERY_S)
    while not await reader.view.changed(REDRAW_EVERY_S):
        if reader.silent().keys() != shown.silent.keys():
            return


async def _print_changes(reader: StatusReader, console: Console) -> NoReturn:
    """Where no terminal can be redrawn: the tables anew after every change, at most once in a while."""
    while True:
        now, shown = datetime.now(UTC), reader.overview()
        console.print(render(shown, now), f"--- {now.isoformat(timespec='seconds')}", "", sep="\n")
        await _until_changed(reader, shown)


async def _follow(reader: StatusReader) -> None:
    console = output()
    if not console.is_terminal:
        await _print_changes(reader, console)
    with Live(render(reader.overview(), datetime.now(UTC)), console=console, refresh_per_second=4) as live:
        while True:
            await reader.view.changed(REDRAW_EVERY_S)
            live.update(render(reader.overview(), datetime.now(UTC)))
