"""Turns pydantic's account of a wrong setting into a sentence for the person who set it. Reads only `os.environ`."""

import difflib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails
    from pydantic_settings import BaseSettings, SettingsError

_SHOWN = 80
_FIELD_IN_MESSAGE = re.compile(r'field "(\w+)"')
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/@\s]*@")


def describe_fault(fault: "ErrorDetails", cls: "type[BaseSettings]", prefix: str, file: str | None) -> str:
    """One sentence: which variable or key, what it holds, and what would be right."""
    path = [str(part) for part in fault["loc"]]
    name = path[0] if path else ""
    where = _where(path, prefix, file)
    if fault["type"] == "extra_forbidden" and len(path) == 1:
        return f"{where} is no setting of this service; {_nearest(name, list(cls.model_fields))}"
    if fault["type"] == "missing":
        return f"{where} is not set, but is required{_meaning(cls.model_fields.get(name))}."
    shown = "(a secret)" if _is_secret(cls.model_fields.get(name)) else _show(fault["input"])
    return f"{where} is {shown}, but {_should(fault['msg'])}{_meaning(cls.model_fields.get(name))}."


def describe_unparsed(error: "SettingsError", cls: "type[BaseSettings]", prefix: str) -> str:
    """One sentence for a variable that should hold a list or a mapping as JSON, and does not."""
    named = _FIELD_IN_MESSAGE.search(str(error))
    if named is None:
        return f"{error}: {error.__cause__}."
    variable = (prefix + named[1]).upper()
    field = cls.model_fields.get(named[1])
    shown = "(a secret)" if _is_secret(field) else _show(os.environ.get(variable, ""))
    return f"{variable} is {shown}, but it should be JSON: {error.__cause__}{_meaning(field)}."


def _where(path: list[str], prefix: str, file: str | None) -> str:
    """The environment wins over the file, so a variable that is set is the one to blame."""
    whole = (prefix + path[0]).upper() if path else prefix + "*"
    exact = "__".join([whole, *(part.upper() for part in path[1:])])
    set_variables = {key.upper() for key, value in os.environ.items() if value}
    if exact in set_variables or not file:
        return exact
    if whole in set_variables:  # one JSON value for the whole field
        return f"{whole} ({'.'.join(path[1:])})"
    return f"{file}: {'.'.join(path)}"


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}."


def _should(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return "it " + message.removeprefix("Input ") if message.startswith(("Input should", "should")) else message


def _meaning(field: "FieldInfo | None") -> str:
    """The first sentence of the field's docstring, which says what the value is and its unit."""
    if field is None or not field.description:
        return ""
    first = field.description.split(". ")[0].rstrip(".")
    return f" ({first[0].lower() if first[1:2].islower() else first[0]}{first[1:]})"


def _is_secret(field: "FieldInfo | None") -> bool:
    return field is not None and "Secret" in repr(field.annotation)


def _show(value: object) -> str:
    text = _PASSWORD_IN_URL.sub("***@", repr(value))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
