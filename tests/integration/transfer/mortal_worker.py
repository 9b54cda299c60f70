"""A worker that kills itself before one of its writes into shared memory: `KVBERTH_TEST_WRITES` says before which.

Counted from when an engine has registered, or (`KVBERTH_TEST_FROM=commit`) has committed: words of headers and of
extents, records of the rings, the index.
"""

import os
import signal

from kvberth.service import serve
from kvberth.store.index import Index
from kvberth.store.memory import StoreMemory
from kvberth.store.rings import WorkerRings
from kvberth.transfer_worker.service import SERVICE, main
from kvberth.transfer_worker.serving import Serving
from kvberth.transfer_worker.settings import TransferWorkerSettings

_left = int(os.environ["KVBERTH_TEST_WRITES"])
_counting = False


def _fuse(owner: type, name: str) -> None:
    write = getattr(owner, name)

    def fused(*arguments: object) -> object:
        global _left
        _left -= _counting
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return write(*arguments)

    setattr(owner, name, fused)


def _begin_with_the_first_engine() -> None:
    register = Serving.register

    def registered(*arguments: object) -> object:
        global _counting
        answer = register(*arguments)
        _counting = True
        return answer

    Serving.register = registered


def _begin_with_the_first_commit() -> None:
    commits = WorkerRings.commits

    def heard(*arguments: object) -> object:
        global _counting
        found = commits(*arguments)
        _counting = _counting or bool(found)
        return found

    WorkerRings.commits = heard


if __name__ == "__main__":
    for owner, name in (
        (StoreMemory, "put_word"),
        (StoreMemory, "put_body"),
        (StoreMemory, "set_extent"),
        (WorkerRings, "grant"),
        (WorkerRings, "receipt"),
        (Index, "insert"),
        (Index, "remove"),
    ):
        _fuse(owner, name)
    if os.environ.get("KVBERTH_TEST_FROM") == "commit":
        _begin_with_the_first_commit()
    else:
        _begin_with_the_first_engine()
    serve(SERVICE, TransferWorkerSettings, main)
