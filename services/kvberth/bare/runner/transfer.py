"""How a cache's transfer worker is run on a bare node, and whether it serves: a process beside vineyardd."""

import json
import os
import sys
from pathlib import Path

from kvberth.bare.process.start import Command, StartError
from kvberth.bare.runner.asking import asked
from kvberth.bare.runner.caches import cache_socket, check_directory
from kvberth.bare.runner.readiness import Answer
from kvberth.bare.runner.record import Record
from kvberth.service.shortage import is_own_shortage
from kvberth.store.control import SOCKET_NAME
from kvberth_schemas.wants import CacheWantV1

_NOT_ITS_OWN = ("KVBERTH_INSTANCE", "KVBERTH_CONFIG")
"""Of the runner's own settings, those that name the runner itself."""


def transfer_command(root: Path, record: Record, log: Path) -> Command:
    """Give the command of a worker's next life, and make the directory of its cache.

    It speaks to the runner's bus, and only to this machine besides.

    Raises:
        StartError: the directory can't be made.
    """
    want = record.want
    assert isinstance(want, CacheWantV1)
    assert record.port is not None  # chosen with the life
    directory = cache_socket(root, record.key).parent
    try:
        check_directory(directory)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StartError(f"the directory {directory} can't be made: {error.strerror}") from error
    own = {name: value for name, value in os.environ.items() if name not in _NOT_ITS_OWN}
    told = {
        "KVBERTH_DIRECTORY": str(directory),
        "KVBERTH_NAMESPACE": want.namespace,
        "KVBERTH_KVCACHE": want.kvcache,
        "KVBERTH_BLOCK_BYTES": str(want.block_bytes),
        "KVBERTH_STATE": str(log.with_suffix(".state")),
        "KVBERTH_HTTP_HOST": "127.0.0.1",
        "KVBERTH_HTTP_PORT": str(record.port),
    }
    return Command((sys.executable, "-m", "kvberth.transfer_worker"), {**own, **told}, log)


async def transfer_answers(root: Path, record: Record) -> Answer:
    """Look whether the worker serves its store, and if not, what it says that is missing."""
    try:
        status, body = await asked(record.port, "/readyz")
        there = (cache_socket(root, record.key).parent / SOCKET_NAME).exists()
    except (OSError, ValueError, StartError) as error:
        return Answer(None) if is_own_shortage(error) else Answer(False, "it does not answer")
    if not there:
        return Answer(False, "its socket file was removed", socket_lost=True)
    return Answer(status == 200, "" if status == 200 else _complaints(body))


def _complaints(body: bytes) -> str:
    """The sentences of /readyz."""
    try:
        checks = json.loads(body)["checks"]
        return " ".join(sentence for sentence in checks.values() if sentence != "ok")
    except (ValueError, KeyError, TypeError, AttributeError):
        return "it is not ready"
