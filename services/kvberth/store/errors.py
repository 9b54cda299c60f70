"""The ways in which the store refuses, one class for each that a caller treats differently. No I/O here."""

# ruff: noqa: N818 - each name says the state that was found; "FenceRefusedError" would say no more


class StoreError(Exception):
    """Something about the block store is wrong; the text is one sentence."""


class FenceRefused(StoreError):
    """This machine gives no memory fence: the store must not run here."""


class Malformed(StoreError):
    """Shared memory holds what no version of the store known here writes there."""


class LayoutRefused(StoreError):
    """A layout of blocks that this store cannot hold."""


class EpochEnded(StoreError):
    """The memory belongs to a daemon that is gone: nothing may be copied into it or answered from it any more."""
