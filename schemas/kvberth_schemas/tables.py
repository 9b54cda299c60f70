"""Writes the tables of ``docs/events.md`` from `channels`, between the marks that name them; the prose stays."""

import re
from collections.abc import Iterable

from kvberth_schemas.asyncapi import HEADERS
from kvberth_schemas.channels import Channel, channels

_PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


class TableError(ValueError):
    """The page asks for a table that nobody knows, or for none at all."""


def refresh(page: str) -> str:
    """Give the page with its tables as they are now.

    Raises:
        TableError: a mark names a table that does not exist, or there is no mark.
    """
    known = tables()
    asked = [match[2] for match in _PLACE.finditer(page)]
    if sorted(asked) != sorted(known):
        marks = ", ".join(f"'<!-- table: {name} --> … <!-- end -->'" for name in known)
        raise TableError(f"the page has the tables {asked}; it would have each of {marks} once")
    return _PLACE.sub(lambda match: f"{match[1]}{known[match[2]]}{match[3]}", page)


def tables() -> dict[str, str]:
    """Give every table by its name."""
    events = [one for one in channels() if one.kind in {"state", "log"}]
    wants = [one for one in channels() if one.kind == "want"]
    requests = [one for one in channels() if one.kind == "request"]
    return {
        "subjects": _table(
            ("subject", "about", "kind", "written by"),
            ((f"`{one.address}`", one.summary, one.kind, _names(one)) for one in events),
        ),
        "events": _table(
            ("type", "subject ends in", "says"),
            ((_schema(said.name), f"`.{one.name}`", said.summary) for one in events for said in one.messages),
        ),
        "wants": _table(
            ("subject", "type", "says", "written by", "read by"),
            (
                (f"`{one.address}`", _schema(one.messages[0].name), one.summary, _names(one), f"{one.readers[0]}")
                for one in wants
            ),
        ),
        "requests": _table(
            ("subject", "does", "request", "answer", "asked by"),
            ((f"`{one.address}`", one.summary, *_request(one), _names(one)) for one in requests),
        ),
        "headers": _table(("header", "holds"), ((f"`{name}`", text) for name, text in HEADERS.items())),
    }


def _request(channel: Channel) -> tuple[str, str]:
    assert channel.reply is not None
    request, reply = channel.messages[0].name, channel.reply.name
    return f"[schema](../schemas/json/{request}.json)", f"[schema](../schemas/json/{reply}.json)"


def _schema(name: str) -> str:
    return f"[`{name}`](../schemas/json/{name}.json)"


def _names(channel: Channel) -> str:
    return " or ".join(channel.writers)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
