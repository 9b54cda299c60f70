"""The memory of a store whose daemon is gone: given back to the kernel once no client maps it.

Memory of a daemon lives for as long as anybody maps a byte of it, be it a proof's or a stranger's; and what the store
had of it is charged to the worker, who touched it first, and who needs as much again for the next store. So its pages
are freed by hand. Whoever still looks there by himself reads zeros, of an epoch that nobody may answer from.
"""

import ctypes
import logging
import os
from collections.abc import Sequence

from kvberth.vineyard import SharedBlob

_PUNCH_HOLE, _KEEP_SIZE = 2, 1

_log = logging.getLogger(__name__)
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Remains:
    """The blobs of an epoch that is over. Holds their descriptors until `free` or `close`."""

    def __init__(self, epoch: bytes, blobs: Sequence[SharedBlob]) -> None:
        self.epoch = epoch
        self._blobs = list(blobs)

    def free(self) -> None:
        """Call it when the daemon is dead and no client's lock is held: then nobody may write there any more."""
        for blob in self._blobs:
            if _fallocate(blob.fd, _PUNCH_HOLE | _KEEP_SIZE, blob.offset, blob.size):
                reason = os.strerror(ctypes.get_errno())
                _log.warning("the memory of the last store can't be freed by hand (%s)", reason)
        self.close()

    def close(self) -> None:
        for blob in self._blobs:
            os.close(blob.fd)
        self._blobs.clear()
