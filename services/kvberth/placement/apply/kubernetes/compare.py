"""Tells whether an object still is as we made it. Pure.

Every field of ours must be there with its value; what the API server fills in beside them does not count. A list is
compared whole: an entry more is somebody's edit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvberth_schemas.quantity import QuantityError, parse_quantity

_AMOUNTS = frozenset({"requests", "limits"})


def differences(ours: Mapping[str, Any], live: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Give the paths of our fields that are missing or other than we want them."""
    for key, wanted in ours.items():
        yield from _compare(wanted, live.get(key), f"{path}.{key}" if path else key)


def _compare(wanted: object, found: object, path: str) -> Iterator[str]:
    if found is None and wanted in ([], {}, ""):
        return  # the server drops what is empty
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            yield path
        elif path.rpartition(".")[2] in _AMOUNTS:
            yield from () if _amounts(wanted) == _amounts(found) else (path,)
        else:
            yield from differences(wanted, found, path)
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != len(wanted):
            yield path
        else:
            for at, (one, other) in enumerate(zip(wanted, found, strict=True)):
                yield from _compare(one, other, f"{path}[{at}]")
    elif wanted != found:
        yield path


def _amounts(found: Mapping[str, Any]) -> dict[str, object]:
    return {key: _amount(value) for key, value in found.items()}


def _amount(value: object) -> object:
    try:
        return parse_quantity(value)
    except QuantityError:
        return value
