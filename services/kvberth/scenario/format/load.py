"""Reads a scenario file, and says in one sentence per fault where it is wrong and what would be right."""

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvberth.scenario.format.scenario import Scenario
from kvberth_schemas.manifests.documents import DocumentError, parse_document

_MAX_SHOWN = 60


class FormatError(Exception):
    """A scenario can't be read; the text has one sentence a line."""


def load(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        FormatError: it can't be read, or is no scenario.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} can't be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, source: str) -> Scenario:
    """Read a scenario from text.

    Raises:
        FormatError: it is none.
    """
    try:
        value = parse_document(text)
    except DocumentError as error:
        place = f", line {error.line}" if error.line else ""
        raise FormatError(f"{source}{place}: {error}") from error
    if not isinstance(value, dict):
        raise FormatError(f"{source} holds no scenario; write at least 'steps:' with one step")
    try:
        return Scenario.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise FormatError("\n".join(f"{source}: {_sentence(fault)}" for fault in faults)) from error


def _sentence(fault: ErrorDetails) -> str:
    path = _path(fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{path}: there is no such key here; {_nearest(fault['loc'])}"
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] == "string_type" and isinstance(fault["input"], bool):
        words = "on, yes and true" if fault["input"] else "off, no and false"
        return f"{path}: YAML reads {words} as a truth value, which is no text; put it in quotes"
    message = re.sub(r"^(Value error, |Input )", "", fault["msg"])
    if fault["msg"].startswith("Value error, "):
        return f"{path}: {message}" if path else message
    return f"{path} is {_shown(fault['input'])}; it {message}"


def _path(loc: tuple[int | str, ...]) -> str:
    """Spell a place as users write it: ``steps[2].expect[0].caches``, counted from 0."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not part.startswith(("function-", "list[", "constrained-", "lax-or-strict")):
            text += f".{part}" if text else part
    return text


def _nearest(loc: tuple[int | str, ...]) -> str:
    model = _model_at(loc[:-1])
    known = [field.alias or name for name, field in model.model_fields.items()] if model else []
    close = get_close_matches(str(loc[-1]), known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"


def _model_at(loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """Find the model that a place lies in."""
    model: type[BaseModel] = Scenario
    for part in loc:
        if isinstance(part, str):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            inner = _models_in(fields[part].annotation) if part in fields else []
            if not inner:
                return None if part in fields else model
            model = inner[0]
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401 (a type as Python spells it)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
