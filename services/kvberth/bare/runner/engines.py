"""How an engine is run on a bare node: the operator's command or the stand-in, told where its cache is."""

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kvberth.bare.process.start import Command, StartError
from kvberth.bare.runner.asking import asked
from kvberth.bare.runner.record import Record
from kvberth.kvcache import paths
from kvberth.kvcache.engines import is_legacy
from kvberth.service.shortage import is_own_shortage
from kvberth_schemas.events import SocketMount
from kvberth_schemas.wants import EngineWantV1

SOCKET_VARIABLE = "AIBRIX_LLM_KV_CACHE_SOCKET"
RPC_VARIABLE = "AIBRIX_LLM_KV_CACHE_RPC_ENDPOINT"
PORT_VARIABLE = "KVBERTH_ENGINE_PORT"
DIRECTORY_VARIABLE = "KVBERTH_CACHE_DIRECTORY"
"""Where an engine finds its cache's sockets here, in place of where its manifest mounts them."""
STAND_IN = (sys.executable, "-m", "kvberth.bare.engine")

_OURS = "KVBERTH_"
_FOR_ENGINES = "KVBERTH_ENGINE_"
_LOADERS = ("LD_", "PYTHON", "PATH", "HOME", _OURS)
"""A manifest's variables that would change which code runs here, or that only make sense in its image, stay out."""


def engine_command(root: Path, record: Record, argv: tuple[str, ...], log: Path) -> Command:
    """Give the command of an engine's next life; never one of its manifest.

    Raises:
        StartError: no process can have one of its variables.
    """
    want = record.want
    assert isinstance(want, EngineWantV1)
    assert record.port is not None  # chosen with the life
    own = {name: value for name, value in os.environ.items() if _is_for_engines(name)}
    env = {**own, **engine_env(want, root), PORT_VARIABLE: str(record.port)}
    fault = env_fault(env)
    if fault is not None:
        raise StartError(fault)
    return Command(argv or STAND_IN, env, log)


def engine_env(want: EngineWantV1, root: Path) -> dict[str, str]:
    """Give the variables of the manifest, with the paths of directory and socket as they are on this node. Pure."""
    env = manifest_env(want.env)
    directories = (paths.map_host_path(mount.host_path, root) for mount in want.sockets)
    if (directory := next(filter(None, directories), None)) is not None:
        env[DIRECTORY_VARIABLE] = str(directory)
    if is_legacy(env):
        mapped = _mapped_socket(env, want.sockets, root)
        if mapped is not None:
            env[SOCKET_VARIABLE] = str(mapped)
    return env


def manifest_env(env: Mapping[str, str]) -> dict[str, str]:
    """Give the variables of a manifest that a process gets here. Pure."""
    return {name: value for name, value in env.items() if not name.startswith(_LOADERS)}


def env_fault(env: Mapping[str, str]) -> str | None:
    """Say which variable no process can have, and why. Pure."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            return f"no process can have the variable {name!r}: a name is not empty and holds neither '=' nor NUL"
        if "\0" in value:
            return f"no process can have the variable {name!r} with this value: it holds a NUL"
    return None


def free_port() -> int:
    """Give a TCP port that is free on loopback right now.

    Raises:
        StartError: none is.
    """
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise StartError(f"no TCP port of 127.0.0.1 can be had for its /health: {error.strerror}") from error


async def engine_answers(record: Record) -> bool | None:
    """Tell whether the engine answers /health with 200 within a second; None when this process can't ask."""
    try:
        return (await asked(record.port, "/health"))[0] == 200
    except (OSError, ValueError) as error:  # TimeoutError is an OSError; ValueError: a first line without end
        return None if is_own_shortage(error) else False


def _is_for_engines(name: str) -> bool:
    return not name.startswith(_OURS) or (name.startswith(_FOR_ENGINES) and name != PORT_VARIABLE)


def _mapped_socket(env: Mapping[str, str], mounts: tuple[SocketMount, ...], root: Path) -> Path | None:
    """Put the node's own directory in the place of the mount that the socket's path lies in."""
    named = env.get(SOCKET_VARIABLE)
    if not named:
        directories = (paths.map_host_path(mount.host_path, root) for mount in mounts)
        return next((paths.socket_path(directory) for directory in directories if directory is not None), None)
    inner = PurePosixPath(named)
    around = [mount for mount in mounts if inner.is_relative_to(mount.mount_path) and ".." not in inner.parts]
    if not around:
        return None
    mount = max(around, key=lambda found: len(PurePosixPath(found.mount_path).parts))
    directory = paths.map_host_path(mount.host_path, root)
    return None if directory is None else directory / inner.relative_to(mount.mount_path)
