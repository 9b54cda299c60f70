"""A worker that is killed at a word of shared memory: what it wrote before stays, the word and the rest do not come."""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from kvberth.store.memory import Place, StoreMemory

_WORD = Struct("=Q")


class Killed(Exception):  # noqa: N818 - what happened to the worker
    """The worker is killed at this write."""


@dataclass
class Mortal:
    """Lets the worker write so many words more; then it is killed before the next one. None: it lives."""

    memory: StoreMemory
    left: int | None = None

    def __post_init__(self) -> None:
        for name in ("put_word", "set_extent"):
            setattr(self.memory, name, self._fused(getattr(self.memory, name)))
        self.memory.put_words = self._word_by_word(self.memory.put_words)

    def _fused(self, write: Callable[..., None]) -> Callable[..., None]:
        def fused(*arguments: object) -> None:
            if self.left is not None:
                if self.left == 0:
                    raise Killed
                self.left -= 1
            write(*arguments)

        return fused

    def _word_by_word(self, write: Callable[..., None]) -> Callable[..., None]:
        one = self._fused(lambda place, word, value: write(place, word, _WORD, value))

        def words(place: Place, word: int, cut: Struct, *values: int | bytes) -> None:
            for at, (value,) in enumerate(_WORD.iter_unpack(cut.pack(*values))):
                one(place, word + at, value)

        return words
