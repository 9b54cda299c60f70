"""Tells how long a move on a cluster took, and in which stage, from the API server's audit log and a witness. Pure.

Every time but the last is the API server's own: when it had answered the request, in `stageTimestamp`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Self

OURS = {
    "decide": "the engine is bound; this is seen and said, placement decides, and patches the DaemonSet",
    "controllers": "the DaemonSet controller makes the pod of the cache, and the scheduler binds it",
    "kubelet": "its node starts it, and it answers the witness's register request",
}
"""The stages of a move by kvberth, in order; together they are the whole of it."""
BARE = tuple(OURS)[1:]
"""Those of the same DaemonSet moved by a bare PATCH."""
_SUCCESS = range(200, 300)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the API server carried out."""

    at: float
    """Seconds since the epoch."""
    what: tuple[str, str, str]
    """Verb, resource, subresource."""
    name: str
    """Empty where the server chose it."""

    @classmethod
    def read(cls, line: str) -> Self | None:
        """Read a line of the log; None where nothing was carried out."""
        said = json.loads(line)
        about = said.get("objectRef") or {}
        done = said["stage"] == "ResponseComplete" and (said.get("responseStatus") or {}).get("code") in _SUCCESS
        if not done:
            return None
        at = datetime.fromisoformat(said["stageTimestamp"]).timestamp()
        what = (said["verb"], about.get("resource", ""), about.get("subresource", ""))
        return cls(at, what, about.get("name", ""))


def requests(lines: Iterable[str]) -> Iterator[Request]:
    """Read the lines of a log."""
    for line in lines:
        if (request := Request.read(line)) is not None:
            yield request


@dataclass(frozen=True, slots=True)
class Move:
    """What is known of a move."""

    engine: str
    """The engine's pod."""
    daemon_set: str
    answered: float
    """When the witness was first answered, in seconds since the epoch."""


def ours(log: Sequence[Request], move: Move) -> dict[str, float] | None:
    """Give the seconds of each stage from the engine's binding on; None where a link of the chain is missing."""
    bound = _first(log, 0.0, ("create", "pods", "binding"), move.engine)
    patched = None if bound is None else _first(log, bound, ("patch", "daemonsets", ""), move.daemon_set)
    return _stages(log, [bound, patched], move, tuple(OURS))


def bare(log: Sequence[Request], move: Move) -> dict[str, float] | None:
    """Give the seconds of each stage from the PATCH on; None where a link of the chain is missing."""
    return _stages(log, [_first(log, 0.0, ("patch", "daemonsets", ""), move.daemon_set)], move, BARE)


def _stages(
    log: Sequence[Request], begun: list[float | None], move: Move, names: Sequence[str]
) -> dict[str, float] | None:
    patched = begun[-1]
    if patched is None:
        return None
    bound = _first(log, patched, ("create", "pods", "binding"), f"{move.daemon_set}-")
    ends = [*begun, bound, move.answered]
    known = [at for at in ends if at is not None]
    if len(known) < len(ends):
        return None
    return {name: end - begin for name, (begin, end) in zip(names, pairwise(known), strict=True)}


def _first(log: Sequence[Request], since: float, what: tuple[str, str, str], name: str) -> float | None:
    """Give when the first such request was through; a name that ends with a dash is the beginning of one."""
    for one in log:
        named = one.name.startswith(name) if name.endswith("-") else one.name == name
        if one.at >= since and one.what == what and named:
            return one.at
    return None
