"""Where the stack keeps what on this machine. Decides paths; writes only the address file."""

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from kvberth.service.files import write_whole
from kvberth_schemas import names

ADDRESS_FILE = "kvberth.json"
NOTE_HOLDS_S = 120.0
"""A service that is still in trouble gets a new note sooner."""
NATS = "nats"
"""Name of the NATS server among the services."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one stack; ``state`` is the user's choice, ``root`` is short because socket paths must be."""

    state: Path
    root: Path

    @classmethod
    def of(cls, state: Path) -> "Layout":
        """Give the layout of a state directory; the same directory always has the same root."""
        state = state.expanduser().absolute()
        digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:8]
        return cls(state, _runtime_directory() / f"kvb-{digest}")

    @property
    def address_file(self) -> Path:
        """Which NATS server and which `up` belong to this state directory."""
        return self.state / ADDRESS_FILE

    @property
    def mark(self) -> Path:
        """Says that the state directory is kvberth's."""
        return self.state / ".kvberth"

    @property
    def used(self) -> bool:
        """Whether a stack has used the state directory, and was not taken down since."""
        return self.mark.exists() or self.address_file.exists()

    @property
    def lock(self) -> Path:
        """Held by `up` while it lives: one instance per state directory."""
        return self.state / "up.lock"

    @property
    def nats(self) -> Path:
        """JetStream's files."""
        return self.state / "nats"

    @property
    def logs(self) -> Path:
        """One file per service."""
        return self.state / "logs"

    @property
    def records(self) -> Path:
        """Records of the services that `up` started, so that `down` finds them when `up` is dead."""
        return self.state / "stack"

    def note(self, service: str) -> Path:
        """Why a service can't work, written by `up`."""
        return self.records / f"{service}.note"

    def notes(self, now_s: float) -> list[str]:
        """Give the notes about services that hold still; `now_s` is seconds since the epoch."""
        found = []
        for path in sorted(self.records.glob("*.note")):
            with contextlib.suppress(OSError):  # it goes just now
                if now_s - path.stat().st_mtime < NOTE_HOLDS_S:
                    found.append(path.read_text(encoding="utf-8"))
        return found

    def process_records(self) -> list[Path]:
        """Records of engines and caches: one directory per node that ever had a runner."""
        return sorted((self.state / "nodes").glob("*/records"))

    def node_file(self, node: str) -> Path:
        """What a node claims to have, for its runner."""
        return self.state / "nodes" / names.encode(node) / "node.yaml"

    def node_root(self, node: str) -> Path:
        """Below which a node's sockets lie."""
        return self.root / node


@dataclass(frozen=True, slots=True)
class Address:
    """What every command reads to find the stack."""

    nats_url: str
    pid: int
    start_ticks: int | None
    """When `up` started, so that its pid is never taken for another process's."""
    nodes: tuple[str, ...]

    def write(self, layout: Layout) -> None:
        """Write the address file, whole or not at all."""
        layout.state.mkdir(parents=True, exist_ok=True)
        write_whole(layout.address_file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, layout: Layout) -> "Address | None":
        """Read the address file; None where there is none, or none that can be read."""
        try:
            raw = json.loads(layout.address_file.read_text())
            return cls(str(raw["nats_url"]), int(raw["pid"]), raw["start_ticks"], tuple(raw["nodes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _runtime_directory() -> Path:
    """Give the user's runtime directory, else the system's temporary one."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime)
    return Path(tempfile.gettempdir())
