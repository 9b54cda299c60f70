"""Whose pods they are: which top owners are known, which must be asked for, and which pods wait for the answer. No I/O.

A pod's chain of owners never changes, so an answer counts until its last pod is gone; only `wanted` is read anew.
"""

from collections import defaultdict
from typing import Final, NamedTuple

from kvberth.kube import OwnerReference
from kvberth_schemas.events import Owner

_CLIMBED: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
_GROUP: Final = "apps/"


class OwnerKey(NamedTuple):
    """The controller of some pods, as their reference names it."""

    namespace: str
    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


def is_climbed(reference: OwnerReference) -> bool:
    """Whether an owner is asked for an owner of its own and for how many pods it wants."""
    return reference.kind in _CLIMBED and reference.api_version.startswith(_GROUP)


def as_owner(reference: OwnerReference) -> Owner:
    """Return an owner of a kind of which nothing more is known."""
    return Owner(kind=reference.kind, name=reference.name, uid=reference.uid)


class Owned:
    """The controllers of the pods that are spoken of."""

    def __init__(self) -> None:
        """Nobody owns anything."""
        self._pods: dict[OwnerKey, set[str]] = defaultdict(set)
        self._answers: dict[OwnerKey, Owner | None] = {}
        self._questions: set[OwnerKey] = set()

    @property
    def unanswered(self) -> bool:
        """Whether some pod is held back until its owner is known."""
        return len(self._answers) < len(self._pods)

    def holds_back(self, key: OwnerKey | None) -> bool:
        """Whether nothing can be said yet about the pods of a controller."""
        return key is not None and key not in self._answers

    def top(self, key: OwnerKey) -> Owner | None:
        """The top owner; None where it is not known."""
        return self._answers.get(key)

    def come(self, key: OwnerKey, uid: str) -> None:
        """A pod came, is leaving, or was told again: how many are wanted may have changed."""
        self._pods[key].add(uid)
        self._questions.add(key)

    def leave(self, key: OwnerKey, uid: str) -> None:
        """A pod is gone."""
        pods = self._pods.get(key, set())
        pods.discard(uid)
        if pods:
            self._questions.add(key)
        else:
            self._pods.pop(key, None)
            self._answers.pop(key, None)
            self._questions.discard(key)

    def take_questions(self) -> set[OwnerKey]:
        """Return the controllers to ask about since the last call."""
        taken, self._questions = self._questions, set()
        return taken

    def answer(self, key: OwnerKey, owner: Owner | None) -> set[str]:
        """Take an answer, None for one that did not come in time; return the uids of the pods that it changes."""
        if key not in self._pods:
            return set()
        known = key in self._answers
        if known and owner in (None, self._answers[key]):
            return set()
        self._answers[key] = owner
        return set(self._pods[key])
