"""What a kill left in the scheduler's state directory, and files in it that can't be read."""

from pathlib import Path

from kvberth.service.files import DRAFT

_CORRUPT = ".corrupt"


def remove_drafts(directory: Path) -> None:
    """Remove what a killed writer left half written."""
    for path in directory.glob(f"*{DRAFT}"):
        path.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a file that can't be read, so that nothing is lost and it is not read again; return its new name."""
    number = 0
    while (aside := path.with_name(f"{path.name}{_CORRUPT}{number or ''}")).exists():
        number += 1
    path.replace(aside)
    return aside
