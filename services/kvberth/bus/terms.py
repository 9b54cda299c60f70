"""Which wants are outvoted: in stream order, a lower term than one seen before counts no more. Pure."""

from kvberth_schemas.subjects import Service


class Terms:
    """The rises of each writer's term, by stream sequence."""

    def __init__(self) -> None:
        """Nothing seen."""
        self._rises: dict[Service, list[tuple[int, int]]] = {}

    def forget(self) -> None:
        """The stream is another one: start over."""
        self._rises.clear()

    def accepts(self, writer: Service, sequence: int, term: int) -> bool:
        """Whether a want counts: no earlier sequence had a higher term. A second reading gives the same answers."""
        rises = self._rises.setdefault(writer, [])
        if any(earlier < sequence and higher > term for earlier, higher in rises):
            return False
        if not any(earlier <= sequence and same >= term for earlier, same in rises):
            rises[:] = [rise for rise in rises if rise[0] < sequence or rise[1] > term]
            rises.append((sequence, term))
        return True
