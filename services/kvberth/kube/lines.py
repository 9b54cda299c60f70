"""Cuts a stream of bytes into lines of a bounded length. Pure.

Our own, since the HTTP library's limit is below what a cluster with a larger etcd may send in one line.
"""

from kvberth.kube.kinds import Malformed


class Lines:
    """The lines of one stream; the last, unfinished one waits for the next piece."""

    def __init__(self, most_bytes: int) -> None:
        """A longer line is no frame."""
        self._most_bytes = most_bytes
        self._waiting: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Give the lines that a piece completes, without empty ones.

        Raises:
            Malformed: a line grows beyond the limit.
        """
        first, *others = piece.split(b"\n")
        self._waiting.append(first)
        self._length += len(first)
        if self._length > self._most_bytes:
            raise Malformed(f"is a line of more than {self._most_bytes} bytes")
        if not others:
            return []
        lines = [b"".join(self._waiting), *others[:-1]]
        self._waiting, self._length = [others[-1]], len(others[-1])
        return [line for line in lines if line.strip()]

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._length > 0
