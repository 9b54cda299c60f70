"""Tells what this process itself lacks from what is wrong with whomever it asks: only the latter is news about them."""

import errno

_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


def is_own_shortage(error: BaseException) -> bool:
    """Whether it was file descriptors, memory or the like that this process (or the machine) has too few of."""
    return isinstance(error, OSError) and error.errno in _OWN
