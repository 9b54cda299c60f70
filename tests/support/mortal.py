"""A worker that is killed at a word of shared memory: what it wrote before stays, the word and the rest do not come."""

from dataclasses import dataclass, field
from typing import Any

from kvberth.store.memory import StoreMemory


class Killed(Exception):  # noqa: N818 - what happened to the worker
    """The worker is killed at this write."""


@dataclass
class Mortal:
    """Lets the worker write so many times more; then it is killed before the next one. None: it lives."""

    memory: StoreMemory
    left: int | None = None
    _writers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("set_word", "set_bytes", "set_extent"):
            self._writers[name] = getattr(self.memory, name)
            setattr(self.memory, name, self._fused(name))

    def _fused(self, name: str) -> Any:
        def write(*arguments: object) -> None:
            if self.left is not None:
                if self.left == 0:
                    raise Killed
                self.left -= 1
            self._writers[name](*arguments)

        return write
