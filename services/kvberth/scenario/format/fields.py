"""Which fields the body of a message has, and what may stand there: a rule about another one holds for ever. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

_ANYTHING: Any = Any
_ANY_ITEM = "*"


def fault(said: str | None, bodies: Sequence[type[BaseModel]], path: str, value: object = ...) -> str | None:
    """Say what is wrong with a dotted path, and a value at it (``...``: none is compared), or nothing.

    ``bodies`` are those of the type ``said``, or of all types where none is named.
    """
    found: list[Any] = list(bodies)
    done: list[str] = []
    for part in path.split("."):
        below = [inner for annotation in found for inner in _below(annotation, part)]
        if not below:
            return _no_field(said, path, done, sorted({name for one in found for name in _names(one)}), part)
        found = below
        done.append(part)
    return None if value is ... else _never(said, path, found, value)


def _no_field(said: str | None, path: str, done: list[str], known: list[str], part: str) -> str:
    if said is None:
        return f"no message has the field '{path}'"
    if not known:
        return f"{said} has no field '{path}'; '{'.'.join(done)}' holds nothing below it"
    close = get_close_matches(part, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}"
    return f"{said} has no field '{path}'; {hint}"


def _never(said: str | None, path: str, annotations: Iterable[Any], value: object) -> str | None:
    message = ""
    for annotation in annotations:
        try:
            TypeAdapter(annotation).validate_json(json.dumps(value, default=str), strict=True)
        except ValidationError as error:
            message = message or error.errors(include_url=False)[0]["msg"].removeprefix("Input ")
        else:
            return None
    return f"the field '{path}' of {said or 'any message'} is never {value!r}: it {message}"


def _below(annotation: Any, part: str) -> list[Any]:  # noqa: ANN401 (a type as Python spells it)
    """Give the types of what a part of a path leads to."""
    if annotation is _ANYTHING:
        return [_ANYTHING]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        return [field.annotation for name, field in fields.items() if part in {name, _ANY_ITEM}]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [arguments[1]]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [arguments[0]] if part == _ANY_ITEM or part.isdecimal() else []
    return [inner for argument in _arms(annotation) for inner in _below(argument, part)]


def _names(annotation: Any) -> set[str]:  # noqa: ANN401 (a type as Python spells it)
    """Give the names of a type's fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return set(annotation.model_fields)
    return {name for argument in _arms(annotation) for name in _names(argument)}


def _arms(annotation: Any) -> list[Any]:  # noqa: ANN401 (a type as Python spells it)
    """Give the types of a union."""
    return list(get_args(annotation)) if get_origin(annotation) in {Union, UnionType} else []
