"""The small file by which a command line finds a running service: `<state>/services/<service>[-<node>].json`."""

import contextlib
import json
import os
from pathlib import Path
from urllib.parse import quote


def address_path(state: Path, service: str, node: str | None) -> Path:
    """Where a service of that name (on that node) says how to reach it."""
    name = service if node is None else f"{service}-{node}"
    return state / "services" / f"{quote(name, safe='')}.json"


class AddressFile:
    """One process's file: `{"pid": …, "http": "http://host:port"}`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, http_address: str) -> None:
        """Replace the file in one step, so that no reader sees half of it. Raises `OSError`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        draft.write_text(json.dumps({"pid": os.getpid(), "http": f"http://{http_address}"}) + "\n", encoding="utf-8")
        draft.replace(self._path)

    def remove(self) -> None:
        """Remove the file unless a successor has written its own meanwhile. Never raises: it runs on the way out."""
        with contextlib.suppress(OSError, ValueError):
            if json.loads(self._path.read_text(encoding="utf-8"))["pid"] == os.getpid():
                self._path.unlink()
