"""What the API server's audit log says that placements asked for, and what it answered."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_POD = "authentication.kubernetes.io/pod-name"
_ACCOUNT = "system:serviceaccount:kvberth:placement"


@dataclass(frozen=True)
class Write:
    """A write of a placement, answered."""

    pod: str
    verb: str
    resource: str
    name: str
    code: int
    message: str
    asked: str
    answered: str
    """Both times as the API server wrote them."""

    def __str__(self) -> str:
        """One line."""
        said = f"{self.answered[11:-1]} {self.pod}: {self.verb} {self.resource}/{self.name} -> {self.code}"
        return f"{said} {self.message}" if self.message else said


@dataclass
class Audit:
    """The log from now on."""

    path: Path
    offset: int = 0

    def mark(self) -> None:
        """Forget what was said before."""
        self.offset = self.path.stat().st_size

    def writes(self, resource: str = "daemonsets", pod: str | None = None) -> list[Write]:
        """Give the writes to a kind since the mark."""
        return [one for one in self._all() if one.resource == resource and pod in {None, one.pod}]

    def _all(self) -> Iterator[Write]:
        with self.path.open(encoding="utf-8") as log:
            log.seek(self.offset)
            for line in log:
                if line.endswith("\n") and _ACCOUNT in line and (found := _read(json.loads(line))):
                    yield found


def _read(said: dict) -> Write | None:  # type: ignore[type-arg]
    about, status = said.get("objectRef") or {}, said.get("responseStatus") or {}
    writes = said["verb"] in {"patch", "create", "update", "delete"} and "dryRun" not in said["requestURI"]
    if said["stage"] != "ResponseComplete" or said["user"]["username"] != _ACCOUNT or not writes:
        return None
    pod = (said["user"].get("extra") or {}).get(_POD, ["nobody"])[0]
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    times = said["requestReceivedTimestamp"], said["stageTimestamp"]
    return Write(
        pod, said["verb"], resource, about.get("name", ""), status.get("code", 0), status.get("message", ""), *times
    )
