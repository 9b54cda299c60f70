"""What a user may have meant by a name that nothing here has. Pure."""

import difflib
from collections.abc import Iterable
from typing import Final

SHOWN: Final = 10
"""Names in one sentence; the rest is a number."""


def instead(namespace: str, name: str, known: Iterable[tuple[str, str]]) -> str:
    """Say which name was probably meant, of all known ones (namespace, name); nodes have the namespace ""."""
    found = sorted(known)
    elsewhere = [other for other, same in found if same == name and other != namespace]
    if elsewhere:
        return f"there is one in namespace {elsewhere[0]}: name it with -n {elsewhere[0]}"
    here = [one for other, one in found if other == namespace]
    if not here:
        others = [f"{other}/{one}" for other, one in found]
        return f"none is known there, but {_some(others)}" if others else "none is known at all"
    close = difflib.get_close_matches(name[:253], here, n=1)
    return f"did you mean {close[0]}? Known: {_some(here)}" if close else f"known: {_some(here)}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
