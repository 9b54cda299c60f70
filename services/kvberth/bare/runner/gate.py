"""How the gate before an engine is run on a bare node, and what it says: the same program as in a pod.

It runs once per pod, before the engine's first life, as a life of the engine's own record: so one lock keeps both from
being started twice, and whoever ends or adopts the engine ends or adopts its gate. Decides nothing.
"""

import importlib.util
import os
import sys
from pathlib import Path

from kvberth.bare.process.start import Command, StartError
from kvberth.bare.runner.engines import RPC_VARIABLE, engine_env, env_fault
from kvberth.bare.runner.record import Record
from kvberth.kvcache import paths
from kvberth.kvcache.gates import ending_of
from kvberth_schemas.events import GateResult
from kvberth_schemas.wants import CacheWantV1, EngineWantV1

_TAIL_BYTES = 4096
_WAITING = b"kvberth-gate: waiting, "


def comes_first(want: EngineWantV1 | CacheWantV1, before: Record | None) -> bool:
    """Tell whether the next life is a gate's: an engine wants one, and none has let this pod through yet. Pure."""
    if not isinstance(want, EngineWantV1) or not want.gate or (before is not None and before.gate_open):
        return False
    return _gated(want) is not None


def gate_command(root: Path, record: Record, log: Path) -> Command:
    """Give the command of a gate, and make the empty file in which it leaves its message.

    Raises:
        StartError: that file can't be made, or no process can have one of the variables.
    """
    want = record.want
    assert isinstance(want, EngineWantV1)
    host_path = _gated(want)
    directory = None if host_path is None else paths.map_host_path(host_path, root)
    assert directory is not None  # comes_first
    # No cache of a bare node listens on TCP, whatever the manifest says of it.
    env = {name: value for name, value in engine_env(want, root).items() if name != RPC_VARIABLE}
    if (fault := env_fault(env)) is not None:
        raise StartError(fault)
    ending = _ending_file(log)
    try:
        ending.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        ending.write_bytes(b"")
    except OSError as error:
        raise StartError(f"the file {ending} of a gate can't be made: {error.strerror}") from error
    own = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
    argv = (sys.executable, "-IS", str(_program()), str(paths.socket_path(directory)), str(ending))
    return Command(argv, {**own, **env}, log)


def what_it_waits_for(log: Path) -> str:
    """Give the reason and the sentence of the last line that a gate wrote into its log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:  # it is not there yet, or this process has no descriptor left: nothing new is known
        return ""
    last = next((line for line in reversed(lines) if line.startswith(_WAITING)), b"")
    return last.decode(errors="replace").partition(": waiting, ")[2].partition(": ")[2]


def gate_ending(log: Path, code: int | None) -> GateResult:
    """Give how a gate ended, by the message that it left and the code that it exited with (None: not known)."""
    try:
        message = _ending_file(log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        message = ""
    return ending_of(message, code)


def _gated(want: EngineWantV1) -> str | None:
    """The directory whose socket the gate waits for: the first that may be a cache's."""
    found = (mount.host_path for mount in want.sockets)
    return next((path for path in found if paths.kvcache_of_host_path(path) is not None), None)


def _ending_file(log: Path) -> Path:
    return log.with_suffix(".gate.json")


def _program() -> Path:
    found = importlib.util.find_spec("kvberth.gate")  # not imported: the program is no part of this service
    if found is None or found.origin is None:
        raise StartError("the gate's program is not installed; install kvberth whole")
    return Path(found.origin).with_name("program.py")
