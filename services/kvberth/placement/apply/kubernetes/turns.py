"""Whom to ask next of many, a few at a time and all in turn, and what is known of each by its last answer. Pure.

One whose last answer never came is not known, and what is not known is not told.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

Name = tuple[str, str]
"""Namespace and uid."""

NOBODY: Final[Name] = ("", "")
"""For trouble that is of no one in particular: no uid is empty."""


class Turns:
    """The answers of all, asked in turn."""

    def __init__(self, most: int) -> None:
        """`most`: how many are asked in one round."""
        self._most = most
        self._last = NOBODY
        self._answers: dict[Name, str] = {}
        self._troubles: dict[Name, str] = {}

    @property
    def answers(self) -> dict[Name, str]:
        """What each said last that said anything."""
        return dict(self._answers)

    def begin(self, there: Iterable[Name]) -> list[Name]:
        """Return who is asked in this round, and forget who is not there any more."""
        known = sorted(there)
        self._answers = {name: self._answers[name] for name in known if name in self._answers}
        self._troubles = {name: self._troubles[name] for name in (NOBODY, *known) if name in self._troubles}
        later = [name for name in known if name > self._last]
        asked = list(islice([*later, *known[: len(known) - len(later)]], self._most))
        for name in asked:
            self._answers.pop(name, None)
        return asked

    def said(self, name: Name, answer: str) -> None:
        """Take an answer; an empty one says nothing."""
        self._last = name
        self._troubles.pop(name, None)
        if answer:
            self._answers[name] = answer

    def failed(self, name: Name, trouble: str) -> bool:
        """Take that there was no answer, and tell whether why is news."""
        self._last = name
        return self._is_news(name, trouble)

    def cut_off(self, name: Name, trouble: str) -> bool:
        """Take that nobody can be asked, noticed at one, and tell whether why is news."""
        self._last = name
        return self._is_news(NOBODY, trouble)

    def ended(self) -> None:
        """The round came to its end, so that whatever kept all from being asked is over."""
        self._troubles.pop(NOBODY, None)

    def _is_news(self, name: Name, trouble: str) -> bool:
        news = self._troubles.get(name) != trouble
        self._troubles[name] = trouble
        return news
