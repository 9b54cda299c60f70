"""Tells a denial that the mode bits explain from one that they don't: then a policy such as SELinux's is suspected.

Only looks. The judgement of the bits is pure.
"""

import os
import stat
from pathlib import Path

SELINUX = Path("/sys/fs/selinux")
"""Where the kernel shows SELinux; not there: no SELinux."""


def selinux_hint(path: Path, selinux: Path = SELINUX) -> str:
    """Return what to add to a denial of `path`: empty where the mode bits explain it, or there is no SELinux."""
    if not selinux.is_dir() or not _modes_allow(path):
        return ""
    return "; its mode would allow it: SELinux? See the audit log (ausearch -m avc)"


def _modes_allow(path: Path) -> bool:
    """Whether we may search every directory above a path, and read and write what is there, by their modes."""
    try:
        for directory in reversed(path.parents):
            if not _allows(directory.stat(), os.X_OK):
                return False
        return _allows(path.stat(), os.R_OK | os.W_OK)
    except PermissionError:
        return True  # the directories above let us look, by their modes
    except OSError:
        return False


def _allows(found: os.stat_result, wanted: int) -> bool:
    """Whether the mode grants what is wanted to this process, its capabilities aside."""
    bits = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.geteuid():
        bits >>= 6
    elif found.st_gid in {os.getegid(), *os.getgroups()}:
        bits >>= 3
    return bits & wanted == wanted
