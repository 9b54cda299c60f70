"""The ways in which the store refuses, one class for each that a caller treats differently. No I/O here."""

from collections.abc import Sequence

# ruff: noqa: N818 - each name says the state that was found; "FenceRefusedError" would say no more


def mapping_clients(count: int) -> str:
    """How many clients map a store, in words that a sentence goes on from."""
    return "1 client that maps" if count == 1 else f"{count} clients that map"


class StoreError(Exception):
    """Something about the block store is wrong; the text is one sentence."""


class FenceRefused(StoreError):
    """This machine gives no memory fence: the store must not run here."""


class Malformed(StoreError):
    """Shared memory holds what no version of the store known here writes there."""


class LayoutRefused(StoreError):
    """A layout of blocks that this store cannot hold."""


class StoreInUse(StoreError):
    """The store must be made anew, which it can't be while clients map it; `clients` are the names of their locks."""

    def __init__(self, clients: Sequence[str]) -> None:
        super().__init__(f"Waiting for {mapping_clients(len(clients))} a store which must be made anew")
        self.clients = tuple(clients)


class CopyFailed(StoreError):
    """A device could not copy, and will hardly copy again in this process."""


class EpochEnded(StoreError):
    """The memory belongs to a daemon that is gone: nothing may be copied into it or answered from it any more."""
