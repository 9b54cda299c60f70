"""Writes what follows from the messages: JSON Schema files, AsyncAPI document, tables of the docs, users of NATS.

Run as ``python -m kvberth_schemas.publish`` in the source tree; with ``--check`` it writes nothing and says which files
are out of date. Events, wants and answers are described as they are written (every field present), requests as they may
be sent.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from kvberth_schemas import asyncapi, natsconf, tables
from kvberth_schemas.alive import Alive
from kvberth_schemas.channels import ALIVE
from kvberth_schemas.registry import EVENTS, REQUESTS, WANTS

COMMAND = "python -m kvberth_schemas.publish"
REPOSITORY = Path(__file__).resolve().parents[2]

_JSON = "schemas/json"
_ASYNCAPI = "schemas/asyncapi.yaml"
_DOCS = "docs/events.md"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def documents() -> dict[str, str]:
    """Give the text of every schema file by its name."""
    files = {name: _schema(name, cls, "serialization") for name, cls in {**EVENTS, **WANTS}.items()}
    files[ALIVE] = _schema(ALIVE, Alive, "serialization")
    for verb, (request, reply) in REQUESTS.items():
        asked, answered = f"kvberth.api.{verb}.request.v1", f"kvberth.api.{verb}.reply.v1"
        files[asked] = _schema(asked, request, "validation")
        files[answered] = _schema(answered, reply, "serialization")
    return {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in sorted(files.items())}


def differences(repository: Path = REPOSITORY) -> list[str]:
    """Give one sentence for each file that is missing, differs, or belongs to no message."""
    wanted = _wanted(repository)
    found = {name: _text(repository / name) for name in wanted}
    missing = [f"{name} is missing" for name, text in found.items() if text is None]
    differing = [f"{name} is out of date" for name, text in found.items() if text not in (None, wanted[name])]
    return missing + differing + [f"{name} belongs to no message" for name in _foreign(repository, wanted)]


def publish(repository: Path = REPOSITORY) -> None:
    """Write every file, and remove those that belong to no message."""
    wanted = _wanted(repository)
    for name in _foreign(repository, wanted):
        (repository / name).unlink()
    for name, text in wanted.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 when ``--check`` found differences, 2 for wrong arguments."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write(f"usage: {COMMAND} [--check]\n")
        return 2
    if not arguments:
        publish()
        return 0
    found = differences()
    if found:
        sys.stderr.write("".join(f"{sentence}\n" for sentence in found) + f"Run: {COMMAND}\n")
    return 1 if found else 0


def _wanted(repository: Path) -> dict[str, str]:
    schemas = {f"{_JSON}/{name}": text for name, text in documents().items()}
    page = (repository / _DOCS).read_text(encoding="utf-8")
    return schemas | {_ASYNCAPI: asyncapi.document(), _DOCS: tables.refresh(page)} | natsconf.files()


def _foreign(repository: Path, wanted: dict[str, str]) -> list[str]:
    present = sorted(path.relative_to(repository).as_posix() for path in (repository / _JSON).glob("*.json"))
    return [name for name in present if name not in wanted]


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


def _schema(name: str, cls: type[BaseModel], mode: Literal["serialization", "validation"]) -> dict[str, Any]:
    head = {"$schema": _DIALECT, "$id": f"urn:kvberth:schema:{name}", "title": name}
    return head | {key: value for key, value in cls.model_json_schema(mode=mode).items() if key != "title"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
