"""Writes the JSON Schema files that users and other languages read: one for each message of a released version.

Run as ``python -m kvberth_schemas.publish``; with ``--check`` it writes nothing and says which files are out of date.
Events, wants and answers are described as they are written (every field present), requests as they may be sent.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from kvberth_schemas import requests
from kvberth_schemas.alive import Alive
from kvberth_schemas.model import Message
from kvberth_schemas.registry import EVENTS, WANTS
from kvberth_schemas.subjects import Verb

COMMAND = "python -m kvberth_schemas.publish"
DIRECTORY = Path(__file__).resolve().parent.parent / "json"
"""``schemas/json`` of the repository."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

REQUESTS: dict[Verb, tuple[type[Message], type[Message]]] = {
    Verb.APPLY: (requests.ApplyRequest, requests.Reply),
    Verb.DELETE: (requests.ObjectRequest, requests.Reply),
    Verb.SCALE: (requests.ScaleRequest, requests.Reply),
    Verb.CORDON: (requests.NodeRequest, requests.Reply),
    Verb.UNCORDON: (requests.NodeRequest, requests.Reply),
    Verb.DRAIN: (requests.NodeRequest, requests.Reply),
    Verb.DELETE_NODE: (requests.NodeRequest, requests.Reply),
    Verb.WORKLOAD: (requests.WorkloadRequest, requests.WorkloadReply),
    Verb.REGISTER: (requests.RegisterRequest, requests.Reply),
}
"""What each verb of the bare backend's scheduler takes and answers."""


def documents() -> dict[str, str]:
    """Give the text of every schema file by its name."""
    files = {name: _schema(name, cls, "serialization") for name, cls in {**EVENTS, **WANTS}.items()}
    files["kvberth.alive.v1"] = _schema("kvberth.alive.v1", Alive, "serialization")
    for verb, (request, reply) in REQUESTS.items():
        asked, answered = f"kvberth.api.{verb}.request.v1", f"kvberth.api.{verb}.reply.v1"
        files[asked] = _schema(asked, request, "validation")
        files[answered] = _schema(answered, reply, "serialization")
    return {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in sorted(files.items())}


def differences(directory: Path = DIRECTORY) -> list[str]:
    """Give one sentence for each file of the directory that is missing, differs, or belongs to no message."""
    wanted = documents()
    present = {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.json")}
    missing = [f"{name} is missing" for name in wanted if name not in present]
    differing = [f"{name} is out of date" for name in wanted if present.get(name, wanted[name]) != wanted[name]]
    foreign = [f"{name} belongs to no message" for name in sorted(present) if name not in wanted]
    return missing + differing + foreign


def publish(directory: Path = DIRECTORY) -> None:
    """Write every file, and remove those that belong to no message."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = documents()
    for path in directory.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8")


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


def _schema(name: str, cls: type[BaseModel], mode: Literal["serialization", "validation"]) -> dict[str, Any]:
    head = {"$schema": _DIALECT, "$id": f"urn:kvberth:schema:{name}", "title": name}
    return head | {key: value for key, value in cls.model_json_schema(mode=mode).items() if key != "title"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
