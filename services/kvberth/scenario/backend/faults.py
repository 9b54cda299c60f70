"""Puts fault proxies before the sockets of caches and before servers, on the machine that they are on."""

import asyncio
import os
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from kvberth.scenario.backend.fault_proxy import Fault, FaultProxy, dial_unix
from kvberth.scenario.backend.probes import SOCKET
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format import verbs

_REAL, _NEW = "behind-a-fault.sock", "fault.sock"
_DIAL_S = 1.0


class Faults:
    """The proxies of a scenario, by the socket that they stand at; they live until `close`, or their daemons' end."""

    def __init__(self) -> None:
        self._proxies: dict[Path, FaultProxy] = {}
        self._stack = AsyncExitStack()

    async def put(self, what: verbs.Fault, root: Path, delay_s: float) -> str:
        """Let a cache's socket fail in that way from now on. Raises ScenarioError."""
        assert what.kvcache is not None  # by its format
        path = root / what.namespace / what.kvcache / SOCKET
        if path not in self._proxies:
            self._proxies[path] = await self._stack.enter_async_context(self._interpose(path))
        self._proxies[path].set(Fault(what.does), delay_s)
        return str(path)

    async def close(self) -> None:
        """End them all; the daemons have their sockets back."""
        standing = [*self._proxies]
        await self._stack.aclose()
        for path in standing:
            with suppress(FileNotFoundError, NotADirectoryError):  # its directory is gone
                path.with_name(_REAL).rename(path)

    def _interpose(self, path: Path) -> FaultProxy:
        real = path.with_name(_REAL)
        try:
            os.link(path, real)  # who listens there goes on listening, whatever the name
            listener = _listening(path.with_name(_NEW))
            path.with_name(_NEW).rename(path)  # at no moment is there no socket
        except OSError as error:
            raise ScenarioError(f"no fault can be put before {path}: {error}") from error

        def left() -> None:
            del self._proxies[path]
            real.unlink(missing_ok=True)

        return FaultProxy(listener, lambda: dial_unix(real), left)


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


class ServerProxy:
    """Stands between a server and who is told its address in place of the server's; ``async with``."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, server: str = "") -> None:
        """Listen there; port 0: any that is free."""
        self.server = server
        """URL of the one behind it; empty until that is known: then every connection is ended."""
        self._listener = socket.socket()
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
        except OSError:
            self._listener.close()
            raise
        self._proxy = FaultProxy(self._listener, self._dial)
        self.port = self._listener.getsockname()[1]
        self.url = f"nats://{host}:{self.port}"

    def set(self, what: verbs.Fault, delay_s: float) -> str:
        """Let the server fail in that way from now on."""
        self._proxy.set(Fault(what.does), delay_s)
        return self.url

    async def __aenter__(self) -> Self:
        await self._proxy.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._proxy.__aexit__(kind, error, trace)

    async def _dial(self) -> socket.socket:
        address = urlsplit(self.server)
        if address.hostname is None or address.port is None:
            raise ConnectionRefusedError("the server is not started yet")
        sock = socket.socket()
        sock.setblocking(False)
        try:
            async with asyncio.timeout(_DIAL_S):
                await asyncio.get_running_loop().sock_connect(sock, (address.hostname, address.port))
        except BaseException:
            sock.close()
            raise
        return sock
