"""Writes what was heard on the bus into a file."""

import json
from collections.abc import Iterable
from pathlib import Path

from kvberth.scenario.facts import Heard


def keep_events(folder: Path, heard: Iterable[Heard]) -> None:
    """Write one JSON object a line."""
    with (folder / "events.jsonl").open("w") as out:
        for one in heard:
            about = {"time": one.time.isoformat(), "id": one.id, "subject": one.subject, "type": one.type}
            out.write(json.dumps({**about, "cause": one.cause, "data": one.body}) + "\n")
