"""A worker that is killed at a word of shared memory: what it wrote before stays, the word and the rest do not come."""

from collections.abc import Callable
from dataclasses import dataclass

from kvberth.store.layout import slots
from kvberth.store.memory import Place, StoreMemory


class Killed(Exception):  # noqa: N818 - what happened to the worker
    """The worker is killed at this write."""


@dataclass
class Mortal:
    """Lets the worker write so many words more; then it is killed before the next one. None: it lives.

    Words that are copied together come in any order, here the first or the last one first.
    """

    memory: StoreMemory
    left: int | None = None
    backwards: bool = False

    def __post_init__(self) -> None:
        for name in ("put_word", "set_extent"):
            setattr(self.memory, name, self._fused(getattr(self.memory, name)))
        self.memory.put_body = self._word_by_word(self.memory.put_body)

    def _fused(self, write: Callable[..., None]) -> Callable[..., None]:
        def fused(*arguments: object) -> None:
            if self.left is not None:
                if self.left == 0:
                    raise Killed
                self.left -= 1
            write(*arguments)

        return fused

    def _word_by_word(self, write: Callable[..., None]) -> Callable[..., None]:
        one = self._fused(write)

        def words(place: Place, word: int, body: bytes) -> None:
            each = range(0, len(body), 8)
            assert {slots.GENERATION, slots.STATE}.isdisjoint(word + at // 8 for at in each)
            for at in reversed(each) if self.backwards else each:
                one(place, word + at // 8, body[at : at + 8])

        return words
