"""Looks at sockets, paths, metrics and logs of a stack, from the machine that it is on; each look with a deadline."""

import asyncio
import json
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from kvberth.scenario.facts import Answer, PathFact, Place, Readiness, Sample, SocketState
from kvberth.vineyard import DaemonHung, NotASocket, SocketDenied, SocketMissing, SocketStale, VineyardError, probe

ANSWER_WITHIN_S: Final = 1.0
SCRAPE_WITHIN_S: Final = 1.0
SOCKET: Final = "vineyard.sock"
MAX_LOG_BYTES: Final = 16 * 1024 * 1024

_STATES: Final[tuple[tuple[type[VineyardError], SocketState], ...]] = (
    (NotASocket, "other"),
    (SocketMissing, "missing"),
    (SocketStale, "stale"),
    (SocketDenied, "denied"),
    (DaemonHung, "silent"),
)
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([-+\w.]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


async def ask(socket: Path) -> Answer:
    """Ask a socket by a real register request."""
    try:
        registration, status = await probe(socket, timeout_s=ANSWER_WITHIN_S)
    except VineyardError as error:
        return Answer(next((state for kind, state in _STATES if isinstance(error, kind)), "other"), detail=error.what)
    return Answer("answers", status.deployment, registration.instance_id)


async def ask_places(places: Iterable[Place], root: Path) -> dict[Place, Answer]:
    """Ask the sockets of several places at once."""
    chosen = sorted(set(places))
    answers = await asyncio.gather(*(ask(socket_of(place, root)) for place in chosen))
    return dict(zip(chosen, answers, strict=True))


def socket_of(place: Place, root: Path) -> Path:
    """Give where a cache's socket lies."""
    return root / place.node / place.namespace / place.kvcache / SOCKET


def look_at(path: Path) -> PathFact:
    """Tell what lies at a path."""
    try:
        found = path.lstat()
        empty = stat.S_ISDIR(found.st_mode) and not any(path.iterdir())
    except FileNotFoundError:
        return PathFact("missing")
    except PermissionError:
        return PathFact("directory", mode=stat.S_IMODE(found.st_mode))
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISSOCK, "socket"), (stat.S_ISREG, "file"))
    for is_kind, name in kinds:
        if is_kind(found.st_mode):
            return PathFact(name, empty, stat.S_IMODE(found.st_mode))  # type: ignore[arg-type] # one of the names
    return PathFact("other", mode=stat.S_IMODE(found.st_mode))


async def scrape(address: str) -> Sequence[Sample] | str:
    """Give the metrics that ``host:port`` serves, or why there are none."""
    status, body = await _get(address, "/metrics")
    if status is None:
        return f"{address} gives no metrics: {body}"
    return parse_metrics(body) if status == HTTPStatus.OK else f"{address} answers {status} to /metrics"


async def readyz(address: str) -> Readiness | str:
    """Give what the service at ``host:port`` says of itself, or why it does not."""
    status, body = await _get(address, "/readyz")
    if status in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}:
        return Readiness(status == HTTPStatus.OK, body)
    return f"{address} does not say whether it is ready: {body if status is None else status}"


async def _get(address: str, path: str) -> tuple[int | None, str]:
    """Give status and body of an answer; None and the reason where there is none."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(SCRAPE_WITHIN_S):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                writer.write_eof()
                text = (await reader.read()).decode(errors="replace")
            finally:
                writer.transport.abort()
    except (OSError, ValueError) as error:
        return None, str(error) or "no answer in time"
    head, _, body = text.partition("\r\n\r\n")
    status = head.partition(" ")[2].partition(" ")[0]
    return (int(status), body) if status.isdecimal() else (None, f"{head[:80]!r} is no answer")


def parse_metrics(text: str) -> list[Sample]:
    """Read Prometheus' text form; pure."""
    found = []
    for line in text.splitlines():
        match = _SERIES.match(line.strip())
        if match and not line.startswith("#"):
            labels = dict(_LABEL.findall(match[2] or ""))
            found.append(Sample(match[1], labels, float(match[3])))
    return found


def service_address(services: Path, name: str) -> str | None:
    """Give ``host:port`` of a service by its address file; None while it has none."""
    try:
        value: Mapping[str, str] = json.loads((services / f"{name}.json").read_text())
        return str(value["http"]).removeprefix("http://")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_lines(path: Path) -> list[str]:
    """Give the lines of a log; empty while there is none."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_LOG_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
