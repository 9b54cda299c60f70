"""Why a write conflicted, in a sentence and as a word that decides what to do. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvberth.kube.errors import Conflict

UID_FIELD: Final = "metadata.uid"
"""The field that a server names when a patch was meant for another object of the name."""

_OWNER = re.compile(r'conflict with "([^"]*)"')
_OTHER_UID = ("uid mismatch", "precondition failed: uid", "the uid in the precondition")
_OWNERSHIP = "FieldManagerConflict"


class ConflictKind(StrEnum):
    """What stood against a write."""

    OWNERSHIP = "ownership"
    """Another manager owns a field: only force, or leaving the field out, helps."""
    IDENTITY = "identity"
    """The object of that name has another uid, or is gone: what was planned for is no more."""
    VERSION = "version"
    """The object changed since it was read: read it again and decide anew."""


@dataclass(frozen=True, slots=True)
class ConflictReport:
    """One conflict. `fields` pairs a field's path with the manager that owns it."""

    kind: ConflictKind
    sentence: str
    fields: tuple[tuple[str, str], ...] = ()


def explain(title: str, error: Conflict) -> ConflictReport:
    """Say why a write to the object with this title conflicted."""
    fields = tuple((cause.field, _owner(cause.message)) for cause in error.causes if cause.reason == _OWNERSHIP)
    if fields:
        owned = ", ".join(f"{field} belongs to {owner}" for field, owner in fields)
        return ConflictReport(ConflictKind.OWNERSHIP, f"{title} was not changed: {owned}", fields)
    text = str(error).lower()
    immutable = any(cause.field == UID_FIELD for cause in error.causes)
    if immutable or any(words in text for words in _OTHER_UID):
        sentence = f"{title} is not the object that was planned for: it was deleted, and perhaps made anew"
        return ConflictReport(ConflictKind.IDENTITY, sentence)
    return ConflictReport(ConflictKind.VERSION, f"{title} changed since it was read; it has to be read again")


def _owner(message: str) -> str:
    found = _OWNER.search(message)
    return found.group(1) if found else "another manager"
