"""Writes the JSON Schema of scenario files, for editors and other tools.

Run as ``python -m kvberth.scenario.format.schema``; with ``--check`` it writes nothing and says if it is old.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from kvberth.scenario.format.scenario import Scenario

COMMAND = "python -m kvberth.scenario.format.schema"
FILE = Path(__file__).resolve().parents[4] / "schemas" / "scenario.schema.json"

_HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:kvberth:schema:scenario",
    "title": "A scenario of kvberth",
}


def document() -> str:
    """Give the text of the file."""
    schema = {key: value for key, value in Scenario.model_json_schema(by_alias=True).items() if key != "title"}
    return json.dumps(_HEAD | schema, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 when ``--check`` found a difference, 2 for wrong arguments."""
    if list(arguments) not in ([], ["--check"]):
        sys.stderr.write(f"usage: {COMMAND} [--check]\n")
        return 2
    if not arguments:
        FILE.write_text(document(), encoding="utf-8")
        return 0
    if FILE.is_file() and FILE.read_text(encoding="utf-8") == document():
        return 0
    sys.stderr.write(f"{FILE.name} is missing or out of date\nRun: {COMMAND}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
