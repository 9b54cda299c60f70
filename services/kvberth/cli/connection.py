"""Finds the running kvberth and connects to its bus."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from kvberth.bare.stack.layout import Address, Layout
from kvberth.bus import Bus, BusSettings
from kvberth.cli.errors import CommandError
from kvberth_schemas.subjects import Service

DEFAULT_STATE = Path("~/.local/state/kvberth")
CONNECT_WITHIN_S = 3.0

T = TypeVar("T")


def layout_of(state: Path | None) -> Layout:
    """Give the layout of the state directory named by the option, the environment, or the default."""
    return Layout.of(state or Path(os.environ.get("KVBERTH_STATE") or DEFAULT_STATE))


def named_bus() -> str | None:
    """Give the URL of the bus that the environment names, if it does."""
    return os.environ.get("KVBERTH_NATS_URL") or None


def nats_url(layout: Layout) -> str:
    """Give the URL of the bus: ``KVBERTH_NATS_URL``, else what `kvberth up` wrote down.

    Raises:
        CommandError: nothing says where the bus is.
    """
    if url := named_bus():
        return url
    if address := Address.read(layout):
        return address.nats_url
    raise CommandError(
        f"no kvberth runs with the state directory {layout.state}; start one with 'kvberth up', "
        "or name its bus in KVBERTH_NATS_URL"
    )


@asynccontextmanager
async def connected(layout: Layout, within_s: float = CONNECT_WITHIN_S) -> AsyncIterator[Bus]:
    """Connect to the bus for one command, waiting at most so many seconds.

    Raises:
        CommandError: nobody answers there, or not to us; with the last error, where there was one.
    """
    url = nats_url(layout)
    settings = BusSettings(
        url=url,
        nkey_file=_file("KVBERTH_NATS_NKEY_FILE"),
        tls_ca=_file("KVBERTH_NATS_TLS_CA"),
        service=Service.CLI,
        instance=f"cli-{os.getpid()}",
    )
    async with Bus(settings) as bus:
        await _until_connected(bus, url, within_s)
        yield bus


def _file(variable: str) -> Path | None:
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else None


async def _until_connected(bus: Bus, url: str, within_s: float) -> None:
    deadline = asyncio.get_running_loop().time() + within_s
    while not bus.connected:
        if asyncio.get_running_loop().time() > deadline:
            why = f"; the last error was: {bus.last_error}" if bus.last_error else ""
            raise CommandError(
                f"nobody answers at {url}; is 'kvberth up' running? (KVBERTH_NATS_URL names another bus){why}"
            )
        await asyncio.sleep(0.02)  # a poll of our own flag: the connection is made in the background


def run(command: Coroutine[Any, Any, T]) -> T:
    """Run one command's coroutine to its end."""
    return asyncio.run(command)
