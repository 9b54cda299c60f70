"""Files that are whole or absent: written beside their name, synced, and renamed.

A kill or a power cut at any moment leaves the old one or the new one.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

DRAFT = ".new"
"""Suffix of a file that is being written; one that is found at a start was left by a kill."""


def write_whole(path: Path, text: str) -> None:
    """Write a file that survives a kill; with its directory synced also a power cut. Raises OSError."""
    write_all({path: text})


def write_all(texts: Mapping[Path, str]) -> None:
    """Write files so that a disk without room changes none of them. Raises OSError.

    All that needs room is done before the first file is renamed into its place; a kill may leave some renamed.
    """
    try:
        for path, text in texts.items():
            _write_draft(draft_of(path), text)
    except OSError:
        for path in texts:
            draft_of(path).unlink(missing_ok=True)
        raise
    for path in texts:
        draft_of(path).replace(path)


def draft_of(path: Path) -> Path:
    """Give the name under which a file is written before it is whole."""
    return path.with_name(path.name + DRAFT)


def sync_directories(paths: Iterable[Path]) -> None:
    """Make renames and removals in these directories survive a power cut. Raises OSError."""
    for path in sorted(set(paths)):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_draft(draft: Path, text: str) -> None:
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
