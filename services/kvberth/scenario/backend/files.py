"""Changes files below a node's root for sockets, and puts hostile peers there; from the machine that it is on."""

import asyncio
import shutil
import socket
from pathlib import Path
from typing import Final

from kvberth.scenario.backend.probes import SOCKET
from kvberth.scenario.backend.protocol import ScenarioError
from kvberth.scenario.format.verbs import FileAct, Peer

_GARBAGE: Final = b"\xff" * 64


def act(what: FileAct, root: Path) -> str:
    """Do one thing below the root of its node; raises ScenarioError where the path leaves it, or the kernel refuses."""
    path = _inside(root, what.value)
    mode = int(what.mode, 8)
    try:
        match what.kind:
            case "mkdir":
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(mode)
            case "chmod":
                path.chmod(mode)
            case "remove":
                _remove(path)
            case "write":
                _remove(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("put here by a scenario\n")
            case "stale_socket":
                _listen(path).close()
    except OSError as error:
        raise ScenarioError(f"{what} failed: {error}") from error
    return f"{path}"


class Peers:
    """The hostile programs of a scenario; they live until `close`."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def put(self, peer: Peer, root: Path) -> str:
        """Listen at a cache's socket, in place of what is there. Raises ScenarioError."""
        path = root / peer.namespace / peer.kvcache / SOCKET
        try:
            listener = _listen(path)
        except OSError as error:
            raise ScenarioError(f"no peer can listen at {path}: {error}") from error

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open.add(writer)
            if peer.does == "garbage":
                await reader.read(1)
                writer.write(_GARBAGE)
            if peer.does == "closes":
                self._open.discard(writer)
                writer.close()

        self._servers.append(await asyncio.start_unix_server(answer, sock=listener))
        return str(path)

    async def close(self) -> None:
        """End them all."""
        for server in self._servers:
            server.close()
        for writer in self._open:
            writer.transport.abort()


def _listen(path: Path) -> socket.socket:
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(16)
    except OSError:
        listener.close()
        raise
    return listener


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _inside(root: Path, name: str) -> Path:
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()) or path == root.resolve():
        raise ScenarioError(f"'{name}' does not lie below the node's root; write a path like default/my-kvcache")
    return path
