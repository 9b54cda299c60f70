"""Reads a text that a user named: whole, bounded in size, and with a sentence where that can't be."""

import errno
from pathlib import Path

from kvberth.service.errors import ServiceError

_WORDS = {
    errno.ENOENT: "does not exist",
    errno.EEXIST: "is a file where a directory should be",
    errno.EISDIR: "is a directory; name a file in it",
    errno.ENOTDIR: "lies below something that is no directory",
    errno.EACCES: "may not be read or written by this user",
    errno.EPERM: "may not be read or written by this user",
}


def why(error: OSError) -> str:
    """Say what is wrong with a path, to follow its name."""
    number = error.errno or 0
    return _WORDS.get(number, f"can't be used ({error.strerror or error})")


def read_text(path: Path, limit_bytes: int) -> str:
    """Read a file of at most so many bytes.

    Raises:
        ServiceError: it can't be read, is larger, or is no UTF-8 text.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(limit_bytes + 1)  # never more, whatever the file claims to be
    except OSError as error:
        raise ServiceError(f"{path} {why(error)}") from error
    return as_text(raw, str(path), limit_bytes)


def as_text(raw: bytes, source: str, limit_bytes: int) -> str:
    """Decode what was read of a source.

    Raises:
        ServiceError: it is larger than the limit, or no UTF-8 text.
    """
    if len(raw) > limit_bytes:
        raise ServiceError(f"{source} is larger than {limit_bytes // 1024} KiB, the most that is read of one file")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {raw[error.start]:#04x} at {error.start}"
        raise ServiceError(f"{source} is no text ({byte} is no UTF-8); name a file of YAML or JSON") from error
