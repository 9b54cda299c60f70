"""`kvberth up` and `kvberth down`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kvberth.bare.stack import Layout, Stack, read_nodes, stop_up, take_down
from kvberth.bus import Bus
from kvberth.cli.answers import ask, print_reply
from kvberth.cli.connection import connected, layout_of
from kvberth.cli.console import output
from kvberth.cli.errors import CommandError
from kvberth.cli.manifests import apply_request
from kvberth.cli.options import State
from kvberth.cli.signals import on_signals, until_signal
from kvberth.cli.status import status_reader
from kvberth_schemas.requests import ApplyRequest
from kvberth_schemas.subjects import Verb

START_WITHIN_S = 60.0
"""For NATS and the services to answer at all: a slow machine must not make `up` end what it just started."""


def up(
    nodes: Annotated[
        Path | None,
        typer.Option(
            "--nodes", metavar="FILE", help="v1 Node objects to pretend; the default is two L20 nodes, l20-a and l20-b."
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "-f", "--file", metavar="FILE", help="Apply a manifest when all is up. May be given several times."
        ),
    ] = None,
    state: State = None,
) -> None:
    """Run all of kvberth on this machine, in the foreground. Ctrl-C ends it and everything it started.

    Other commands find it by its state directory; run them in another terminal.

    At its end the applied manifests go with the state directory: keep files.
    """
    asyncio.run(_up(layout_of(state), nodes, file or []))


def down(state: State = None) -> None:
    """End the running kvberth (or what a killed one left): engines, caches, services, sockets and state directory.

    The applied manifests go with the state directory. Where nothing runs it says so and changes nothing.
    """
    console = output()
    layout = layout_of(state)
    if stop_up(layout):
        console.print("kvberth is down.")
        return
    if not layout.used:
        console.print(f"nothing runs with the state directory {layout.state}")
        return
    _name_forgotten(console, take_down(layout))
    console.print("kvberth is down (its 'up' had ended before).")


async def _up(layout: Layout, nodes: Path | None, files: list[Path]) -> None:
    console = output()
    requests = [apply_request(path) for path in files]
    stack = Stack(layout, read_nodes(nodes))
    signalled = on_signals()
    async with stack:
        await until_signal(signalled, _stay(stack, layout, requests, console))
        console.print("ending engines, caches and services …")
    _name_forgotten(console, stack.forgotten)
    console.print("kvberth is down.")


async def _stay(stack: Stack, layout: Layout, requests: list[ApplyRequest], console: Console) -> None:
    assert stack.address is not None
    console.print(f"kvberth is starting on {', '.join(stack.address.nodes)}; NATS at {stack.address.nats_url}")
    async with connected(layout, START_WITHIN_S) as bus, status_reader(bus) as reader:
        await reader.until_complete(START_WITHIN_S)
        for request in requests:
            await _apply(bus, request, console)
    option = "" if layout == layout_of(None) else f" --state {layout.state}"
    console.print(
        f"up. In another terminal: 'kvberth apply -f FILE{option}', 'kvberth status -w{option}'. Ctrl-C ends it."
    )
    await asyncio.Event().wait()


async def _apply(bus: Bus, request: ApplyRequest, console: Console) -> None:
    """Apply a file; what goes wrong with it is told, and ends no stack."""
    try:
        print_reply(request, await ask(bus, Verb.APPLY, request), console)
    except CommandError as error:
        console.print(f"{request.source} may not be applied: {error}", style="yellow", markup=False)


def _name_forgotten(console: Console, manifests: list[str]) -> None:
    if manifests:
        console.print(f"forgotten with the state directory: {', '.join(manifests)}")
