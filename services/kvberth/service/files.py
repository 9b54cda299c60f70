"""Files that are whole or absent: written beside their name, synced, and renamed.

A kill or a power cut at any moment leaves the old one or the new one.
"""

import os
from collections.abc import Iterable
from pathlib import Path

DRAFT = ".new"
"""Suffix of a file that is being written; one that is found at a start was left by a kill."""


def write_whole(path: Path, text: str) -> None:
    """Write a file that survives a kill; with its directory synced also a power cut. Raises OSError."""
    draft = path.with_name(path.name + DRAFT)
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def sync_directories(paths: Iterable[Path]) -> None:
    """Make renames and removals in these directories survive a power cut. Raises OSError."""
    for path in sorted(set(paths)):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
