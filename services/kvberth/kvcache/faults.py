"""Turns what a schema found into complaints of our own: field paths as users write them, no text of a library."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvberth_schemas.manifests import Complaint
from kvberth_schemas.manifests.base import FAULT

_HUGE: Final = 10**30
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYED: Final = frozenset({"annotations", "labels", "nodeSelector", "matchLabels"})

_MAP = ("a map", "write lines of `key: value` below it, or leave it out")
_LIST = ("a list", "write lines that begin with '- ' below it, or leave it out")
_WHOLE = ("a whole number", "write digits only, without quotes")
_EXPECTED: Final = {
    "model_type": _MAP,
    "model_attributes_type": _MAP,
    "dict_type": _MAP,
    "tuple_type": _LIST,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": ("a number", "write a number without quotes"),
    "float_parsing": ("a number", "write a number without quotes"),
    "bool_type": ("true or false", "write true or false without quotes"),
}
_NONE: Final[Mapping[type[BaseModel], Iterable[str]]] = {}
_NOWHERE: Final[Mapping[str, str]] = {}
MOST_STRAYS: Final = 31
"""Unknown fields that are named, so that a document of 256 KiB is answered at once, in one message, and that the
count of the others has a place among the 32 complaints that a condition tells."""
_BOUNDS: Final = {
    "greater_than_equal": ("ge", "is less than", "write {} or more"),
    "greater_than": ("gt", "is not more than", "write more than {}"),
    "less_than_equal": ("le", "is more than", "write {} or less"),
    "less_than": ("lt", "is not less than", "write less than {}"),
}


def schema_faults(model: type[BaseModel], raw: Mapping[str, Any]) -> list[Complaint]:
    """Return what a model refuses in an object, in the order of its fields."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        return [_complaint(item) for item in error.errors(include_url=False)]
    return []


def unknown_fields(
    model: type[BaseModel], raw: object, path: str, unread: Mapping[type[BaseModel], Iterable[str]] = _NONE
) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Yield where it stands, and its name, of each field that a model and those below it do not know; and those known.

    `unread` are models that let fields through, with the names of those that are right all the same. Reads the object
    itself, so that a fault elsewhere in it hides nothing.
    """
    if not isinstance(raw, Mapping) or not (model in unread or model.model_config.get("extra") == "allow"):
        return
    known: dict[str, Any] = dict.fromkeys(unread.get(model, ()))
    known |= {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for name, value in raw.items():
        below = join(path, str(name))
        if name not in known:
            yield path, str(name), known
        elif (inner := _model_in(known[name])) is not None:
            # A list where a map is due, or the other way round, is the schema's to say.
            places = enumerate(value) if isinstance(value, list) else ()
            for place, item in places if _is_list(known[name]) else [(None, value)]:
                yield from unknown_fields(inner, item, below if place is None else join(below, place), unread)


def stray_complaints(
    found: Iterable[tuple[str, str, Iterable[str]]], problem: str, lives_at: Mapping[str, str] = _NOWHERE
) -> Iterator[Complaint]:
    """Yield a complaint about each unknown field, with what was probably meant; of very many only about the first.

    `lives_at` tells of fields that stand elsewhere.
    """
    fields = iter(found)
    for parent, name, known in islice(fields, MOST_STRAYS):
        path, meant = join(parent, name), _probably(name, known)
        right = lives_at.get(path) or (join(parent, meant) if meant else None)
        yield Complaint(path, problem, f"write {right}" if right else "remove it")
    if rest := sum(1 for _ in fields):
        yield Complaint("document", f"has {rest} more fields of which that is true", "")


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that a field holds, alone, optional or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for item in get_args(annotation) if (model := _model_in(item)) is not None), None)


def _is_list(annotation: object) -> bool:
    return get_origin(annotation) is tuple or any(_is_list(item) for item in get_args(annotation))


def _probably(name: str, known: Iterable[str]) -> str | None:
    """The field that was meant: one that begins so, or one that is spelt alike."""
    by_lower = {item.lower(): item for item in known}
    wanted = re.sub(r"[-_.]", "", name[:63].lower())
    longer = [item for item in by_lower if len(wanted) > 2 and item.startswith(wanted)]
    close = longer if len(longer) == 1 else difflib.get_close_matches(wanted, list(by_lower), n=1, cutoff=0.7)
    return by_lower[close[0]] if close else None


def join(path: str, step: str | int) -> str:
    """Return the path of a field below another."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if path.rpartition(".")[2] in _KEYED or not _SIMPLE.fullmatch(step):
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def shown(value: object) -> str:
    """Name a value for a sentence, cut to a readable length."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the boolean {json.dumps(value)}"
    if isinstance(value, int | float):
        # Python refuses to write very long numbers out.
        return f"the number {_cut(repr(value))}" if abs(value) < _HUGE else "a number without measure"
    if isinstance(value, str):
        return f"the text {_cut(repr(value))}"
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, Sequence) else f"a {type(value).__name__}"


def _complaint(item: ErrorDetails) -> Complaint:
    path = ""
    for step in item["loc"]:
        path = path if step == "[key]" else join(path, step)
    problem, remedy = _words(item)
    return Complaint(path, problem, remedy)


def _words(item: ErrorDetails) -> tuple[str, str]:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == FAULT:
        return context["problem"], context["remedy"]
    if kind == "missing":
        return "is missing", "add it"
    if kind in {"string_type", "string_unicode"}:
        return f"must be a text, not {shown(value)}", _quoted(value)
    if kind in _EXPECTED:
        expected, remedy = _EXPECTED[kind]
        if expected == "a whole number" and isinstance(value, str):
            remedy = _digits(value) or remedy
        return f"must be {expected}, not {shown(value)}", remedy
    if kind in _BOUNDS:
        name, words, remedy = _BOUNDS[kind]
        bound = context[name] if isinstance(context[name], int) else f"{context[name]:g}"
        return f"{shown(value)} {words} {bound}", remedy.format(bound)
    if kind == "string_too_short":
        return "is empty", "give it a value"
    if kind == "literal_error":
        return f"{shown(value)} is not allowed here", _allowed(value, context["expected"])
    return f"{shown(value)} is not allowed here", "see the fields of this kind in the documentation"


def _digits(text: str) -> str | None:
    """Say how a whole number is written that came as a text: in quotes, or as `1e3`, which YAML takes for a text."""
    if re.fullmatch(r"[0-9]{1,18}", text):
        return f"write {text}, without quotes"
    if re.fullmatch(r"[0-9]{1,9}[eE]\+?[0-9]", text):
        return f"write {int(float(text))}"
    return None


def _quoted(value: object) -> str:
    if isinstance(value, bool | int | float):
        text = json.dumps(value) if isinstance(value, bool) or abs(value) < _HUGE else "…"
        return f'write "{text}", in quotes'
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1 and isinstance(value[0], str):
        return f"write {_cut(value[0])}"
    return "write one text"


def _allowed(value: object, expected: str) -> str:
    choices = re.findall(r"'([^']*)'", expected)
    close = [choice for choice in choices if isinstance(value, str) and choice.lower() == value.lower()]
    return f"write {close[0]}" if close else f"write {_or([choice for choice in choices if choice])}"


def _or(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
