"""Which directories are a stack's own: it uses no others, and removes no others.

A state directory bears a mark, written before anything else into one that holds nothing of our names. A socket root has
a name that anybody could guess in a directory that all may write: it is made by us, for us alone, or not used.
"""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import ADDRESS_FILE, Layout
from kvberth.service.files import draft_of, write_whole
from kvberth.service.text_file import why

_OURS = ("nats", "logs", "stack", "nodes", "scheduler", "placement", "node_agent", "services", ADDRESS_FILE)
"""What the stack and its services make in a state directory; nothing else is ever removed."""

_MARK_TEXT = "State of 'kvberth up'. 'kvberth down' removes {names}, and everything in them.\n"


def check_state(layout: Layout) -> None:
    """Refuse a state directory with somebody else's things under our names. Changes nothing.

    Raises:
        StackError: it holds such things.
    """
    foreign = [] if layout.mark.exists() else [name for name in _OURS if os.path.lexists(layout.state / name)]
    if foreign:
        raise StackError(
            f"{layout.state} holds {', '.join(foreign)}, which 'kvberth up' did not make and its end would remove; "
            "name another directory with --state, an empty or a new one"
        )


def mark_state(layout: Layout) -> None:
    """Mark the state directory as ours. Raises OSError."""
    if not layout.mark.exists():
        write_whole(layout.mark, _MARK_TEXT.format(names=", ".join(_OURS)))


def make_root(root: Path) -> None:
    """Make the directory of the sockets, or take it if an earlier life of ours made it.

    Raises:
        StackError: it can't be made, or what is there is not ours alone.
    """
    try:
        root.mkdir(mode=0o700)
    except FileExistsError as error:
        fault = _root_fault(root)
        if fault:
            raise StackError(
                f"the socket directory {root} {fault}; remove it, or set XDG_RUNTIME_DIR to a directory of yours"
            ) from error
    except OSError as error:
        raise StackError(f"the socket directory {root} can't be made: it {why(error)}") from error


def remove_all(layout: Layout) -> list[str]:
    """Remove what the stack made; give a sentence for each thing that stays, and leave the mark then."""
    left = _remove_root(layout.root)
    if not layout.mark.exists():
        if any(os.path.lexists(layout.state / name) for name in _OURS):
            left.append(f"{layout.state} bears no mark of kvberth ({layout.mark.name}), so remove what is yours there")
        return left
    for name in _OURS:
        _remove(layout.state / name)
    left += [f"{layout.state / name} can't be removed" for name in _OURS if os.path.lexists(layout.state / name)]
    if not left:
        for path in (draft_of(layout.address_file), draft_of(layout.mark), layout.lock, layout.mark):
            _remove(path)
        with contextlib.suppress(OSError):  # the user's own files lie there too, or it is gone
            layout.state.rmdir()
    return left


def _remove_root(root: Path) -> list[str]:
    if not os.path.lexists(root):
        return []
    fault = _root_fault(root)
    if fault:
        return [f"{root} {fault}, so it was left as it is"]
    _remove(root)
    return [f"{root} can't be removed"] if os.path.lexists(root) else []


def _root_fault(root: Path) -> str:
    """Say why a directory is not ours alone; empty where it is."""
    found = root.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "is no directory"
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}"
    if found.st_mode & 0o077:
        return f"is open to other users (mode {stat.S_IMODE(found.st_mode):04o}; it would be 0700)"
    return ""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
