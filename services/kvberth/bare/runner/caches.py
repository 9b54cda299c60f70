"""How a cache is run on a bare node: which vineyardd, told what, where, and whether it answers."""

from pathlib import Path

from kvberth.bare.process.start import Command, StartError
from kvberth.bare.runner.engines import env_fault, manifest_env
from kvberth.bare.runner.readiness import Answer
from kvberth.bare.runner.record import Key, Record
from kvberth.kvcache import paths
from kvberth.vineyard import (
    BinaryMissing,
    CannotAsk,
    NotASocket,
    SocketMissing,
    SocketStale,
    VineyardError,
    find_vineyardd,
    probe,
)
from kvberth_schemas.wants import CacheWantV1

_NO_PROGRAMS = "/nonexistent"
"""As PATH: vineyardd would start an etcd that it finds there, and leave it running."""
_PROBE_S = 1.0


def cache_socket(root: Path, key: Key) -> Path:
    """Give where the socket of a cache lies on this node.

    Raises:
        StartError: the path is longer than a socket's may be.
    """
    directory = paths.map_host_path(paths.host_directory(key.namespace, key.owner), root)
    if directory is None:
        raise StartError(f"{key.namespace}/{key.owner} names no directory below {root}")
    socket = paths.socket_path(directory)
    complaint = paths.socket_path_complaint(socket)
    if complaint is not None:
        raise StartError(f"the cache {complaint.problem}; {complaint.remedy}")
    return socket


def cache_command(root: Path, record: Record, log: Path) -> Command:
    """Give the command of a cache's next life, and make its directory.

    Raises:
        StartError: no vineyardd is installed, the directory can't be made, or no process can have a variable of it.
    """
    want = record.want
    assert isinstance(want, CacheWantV1)
    assert record.incarnation is not None  # given with the life
    socket = cache_socket(root, record.key)
    env = manifest_env(want.env)
    if (fault := env_fault(env)) is not None:
        raise StartError(fault)
    try:
        program = find_vineyardd()
        check_directory(socket.parent)
        socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except BinaryMissing as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"the directory {socket.parent} can't be made: {error.strerror}") from error
    argv = (
        *(str(program), "--socket", str(socket), "--size", str(want.size_bytes)),
        *("--meta", "local", "--rpc=false", "--compression=false", "--deployment", record.incarnation),
    )
    return Command(argv, {**env, "PATH": _NO_PROGRAMS, "GLOG_logtostderr": "1"}, log)


async def cache_answers(root: Path, record: Record) -> Answer:
    """Look whether this life of the cache answers on its socket."""
    try:
        socket = cache_socket(root, record.key)
        check_directory(socket.parent)
        _, status = await probe(socket, timeout_s=_PROBE_S)
    except CannotAsk:
        return Answer(None)
    except NotASocket as error:  # a new start could not remove it
        return Answer(False, str(error))
    except SocketMissing:
        return Answer(False, "its socket file was removed", socket_lost=True)
    except SocketStale:
        return Answer(False, "its socket file was replaced, nobody listens on it", socket_lost=True)
    except (VineyardError, StartError) as error:
        return Answer(False, str(error))
    if status.deployment != record.incarnation:
        return Answer(False, "its socket file was replaced, another daemon answers on it", socket_lost=True)
    return Answer(True)


def check_directory(directory: Path) -> None:
    """Raise StartError where a link is in the place of a cache's directory: it could lead to anybody's."""
    if directory.is_symlink():
        raise StartError(f"{directory} is a symbolic link, a cache's directory should be here; remove it")
