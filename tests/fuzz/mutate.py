"""Makes new inputs out of known ones: bytes changed anywhere, or values of a JSON document changed in their place.

Deterministic for a given source of randomness. Knows no parser.
"""

import contextlib
import copy
import json
import math
import random
from collections.abc import Sequence
from typing import Any

_MAX_STEPS = 6

_WORDS = (
    b"\x00 \xff \xc3\x28 \xed\xa0\x80 \xef\xbb\xbf -1 0 -0 1e400 -1e400 NaN Infinity 9223372036854775808 "
    b'18446744073709551616 4611686018427387904 null true false {} [] "" "\\ud800" " \\ { } [ ] : , . - = * > / % %00 '
    b"%zz &a *a <<: --- ... !!binary |- ? # \t \n \r\n \r\n\r\n 72Gi 1Ki 0.5 1e3 m Ei n 2026-11-30T00:00:00Z "
    b"0001-01-01T00:00:00 9999-12-31T23:59:59Z"
).split(b" ")
_NUMBERS = (
    0,
    -1,
    1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    0.5,
    -0.0,
    1e308,
    math.inf,
    math.nan,
)
_STRINGS = (
    *("", " ", "0", "-1", "1", "72Gi", "72GB", "1e400", "500m", "true", "a" * 300, "ä€", "\x00", "\ud800", "\n"),
    *("a/b", "a.b", "..", "-", "=2D", "*", ">", "default", "/var/run/vineyard-kubernetes/default/kv"),
    *("2026-11-30T00:00:00Z", "2026-11-30T00:00:00", "9999-12-31T23:59:59.999999-23:59"),
)
_NESTS: tuple[Any, ...] = ([], {}, [None], [[]], {"": None}, [0] * 40, {"name": "a"}, {"a": {"b": {"c": []}}})
_VALUES: tuple[Any, ...] = (None, True, False, *_NUMBERS, *_STRINGS, *_NESTS)


class Mutator:
    """Changes inputs; `pool` holds what it starts from, and grows by what its owner finds interesting."""

    def __init__(self, source: random.Random, pool: Sequence[bytes], most_bytes: int) -> None:
        """The pool must hold at least one input."""
        self._source = source
        self._pool = list(pool)
        self._most_bytes = most_bytes
        self._trees: dict[bytes, bool] = {}

    def add(self, data: bytes) -> None:
        """Start from this one as well."""
        self._pool.append(data)

    def next(self) -> bytes:
        """Give a new input."""
        data = self._source.choice(self._pool)
        if self._source.random() < 0.7 and self._is_tree(data):
            with contextlib.suppress(RecursionError):  # nested too deeply to be written: change its bytes
                return self._changed_tree(data)[: self._most_bytes]
        changed = bytearray(data)
        for _ in range(self._source.randint(1, _MAX_STEPS)):
            self._change(changed)
        return bytes(changed[: self._most_bytes])

    def _is_tree(self, data: bytes) -> bool:
        if data not in self._trees:
            try:
                value = json.loads(data)
            except (ValueError, RecursionError):
                value = None
            self._trees[data] = isinstance(value, dict | list)
        return self._trees[data]

    def _changed_tree(self, data: bytes) -> bytes:
        holder = [json.loads(data)]
        for _ in range(self._source.randint(1, 3)):
            self._change_value(holder)
        return json.dumps(holder[0]).encode("utf-8", "surrogatepass")

    def _change_value(self, holder: list[Any]) -> None:
        place: Any = holder
        key: Any = 0
        while isinstance(place[key], dict | list) and place[key] and self._source.random() < 0.85:
            place = place[key]
            key = self._source.choice(list(place) if isinstance(place, dict) else range(len(place)))
        choice = self._source.randrange(10)
        if choice == 0 and place is not holder:
            del place[key]
        elif choice == 1 and isinstance(place, dict):
            place[self._source.choice(("", "name", "spec", "\x00", "a" * 70, "metadata", "limits"))] = place[key]
        elif choice == 2 and isinstance(place, list) and place is not holder:
            place.append(place[key])
        elif choice == 3:
            place[key] = self._nested(place[key])
        elif choice == 4 and isinstance(place[key], str):
            changed = bytearray(place[key].encode("utf-8", "surrogatepass"))
            self._change(changed)
            place[key] = changed.decode("utf-8", "replace")
        else:
            place[key] = copy.deepcopy(self._source.choice(_VALUES))

    def _nested(self, value: Any) -> Any:
        for _ in range(self._source.choice((1, 2, 8, 70, 300))):
            value = [value] if self._source.random() < 0.5 else {"a": value}
        return value

    def _change(self, data: bytearray) -> None:
        at = self._source.randint(0, len(data))
        end = min(len(data), at + self._source.choice((1, 1, 2, 4, 16, 64)))
        match self._source.randrange(8):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:at] = data[at:end] * self._source.choice((1, 2, 30))
            case 2:
                data[at:end] = self._source.randbytes(end - at)
            case 3 if at < len(data):
                data[at] ^= 1 << self._source.randrange(8)
            case 4:
                other = self._source.choice(self._pool)
                begin = self._source.randint(0, len(other))
                data[at:end] = other[begin : begin + self._source.choice((1, 8, 64, 512))]
            case 5:
                data[at:at] = self._source.choice((b"[", b"{", b'{"a":', b"(", b" ", b"a: ")) * self._source.choice(
                    (3, 200, 5000)
                )
            case 6:
                del data[at:]
            case _:
                data[at:end] = self._source.choice(_WORDS)
