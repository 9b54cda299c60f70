"""Keeps the set of directories that wants ask for: one watcher for each kept one, one emptying for each dropped one.

What no want speaks of stays as it is. Says everything through one `Speaker`; knows no bus.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from kvberth.node_agent.sockets.directory import Directory, empty
from kvberth.node_agent.sockets.gatefile import GateFile
from kvberth.node_agent.sockets.plan import CacheKey, DirWant, Drop, Keep, Refuse, Step, name_complaint, plan
from kvberth.node_agent.sockets.verdict import CacheAddress, Said
from kvberth.node_agent.sockets.watcher import SocketWatcher, Surroundings
from kvberth.vineyard import SocketMissing, SocketPathTooLong, SocketStale, VineyardError, probe
from kvberth_schemas.events import SocketGoneV1, SocketLostReason, SocketLostV1, SocketReadyV1

_log = structlog.get_logger(__name__)

_NOBODY = (SocketMissing, SocketStale, SocketPathTooLong)
"""What proves that no daemon uses a directory; every other failure may come from a living one."""

_EMPTY_S = 60.0

_NOT_OURS = frozenset({"", "local"})
"""Deployments of daemons that were started without an incarnation."""

Speaker = Callable[[Said | SocketGoneV1, str | None, str | None], None]
"""Takes (event, id of the event that led to it, traceparent)."""

Handling = Callable[[str, Mapping[str, str] | None, str], AbstractContextManager[object]]
"""Opens a span around the handling of one want: its name, the headers that it came with, its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperSettings:
    """Where the directories are, whose they are, and how long a dropped one stays full."""

    node: str
    root: Path
    empty_after_s: float


@dataclass(slots=True)
class _Kept:
    watcher: SocketWatcher
    task: asyncio.Task[None]
    want: DirWant | None
    """None: an earlier life of this agent kept it, and no want speaks of it now."""
    gate: GateFile | None = None
    gate_task: asyncio.Task[None] | None = None
    """Both None where no want claims the directory."""
    traced: bool = field(default=False)


class Keeper:
    """Applies wants; its tasks run in the group that it is given."""

    def __init__(
        self,
        settings: KeeperSettings,
        group: asyncio.TaskGroup,
        around: Surroundings,
        speak: Speaker,
        handling: Handling = lambda _name, _headers, _cause: nullcontext(),
    ) -> None:
        self._settings = settings
        self._handling = handling
        self._untraced = copy_context()
        self._group = group
        self._around = around
        self._speak = speak
        self._applied: dict[CacheKey, str] = {}
        self._kept: dict[CacheKey, _Kept] = {}
        self._emptying: dict[CacheKey, asyncio.Task[None]] = {}
        self._first_wants = False
        self.looked = asyncio.Event()
        """Set once the first wants were applied and each directory kept then was looked at."""

    def apply(self, wants: Mapping[CacheKey, DirWant]) -> None:
        """Bring what is kept in line with the wants; those applied before cost nothing."""
        for step in plan(self._applied, wants):
            self._applied[step.key] = step.want.id
            with self._handling(f"directory {step.want.state}", _headers(step.want), step.want.id):
                self._take(step)
        for key in self._applied.keys() - wants.keys() - self._kept.keys() - self._emptying.keys():
            del self._applied[key]
        self._first_wants = True
        self._note_looked()

    def adopt(self, key: CacheKey) -> bool:
        """Go on watching a directory that an earlier life reported and no want speaks of; False when it is not there.

        It is neither made nor changed: what was asked for it is not known any more.
        """
        if name_complaint(key) is not None or not self._path(key).is_dir():
            return False
        if key not in self._kept:
            _log.info("goes on watching a directory that no want speaks of", directory=str(self._path(key)))
            self._start(key, Directory(self._path(key), None), None)
        return True

    def stop(self) -> None:
        """Cancel every task; nothing is said about it."""
        gates = (kept.gate_task for kept in self._kept.values() if kept.gate_task is not None)
        for task in [*(kept.task for kept in self._kept.values()), *gates, *self._emptying.values()]:
            task.cancel()

    def _take(self, step: Step) -> None:
        match step:
            case Keep():
                self._keep(step)
            case Drop():
                self._drop(step)
            case Refuse():
                _log.error("a want names no directory", reason=step.sentence)
                self._speak(self._refused(step), step.want.id, step.want.traceparent)

    def _keep(self, step: Keep) -> None:
        emptying = self._emptying.pop(step.key, None)
        if emptying is not None:
            emptying.cancel()
        directory = Directory(self._path(step.key), step.want.mode, step.want.gid)
        kept = self._kept.get(step.key)
        if kept is None:
            self._start(step.key, directory, step.want)
        else:
            kept.want = step.want
            kept.watcher.keep(directory)
        self._rule(self._kept[step.key], directory, step.want)

    def _rule(self, kept: _Kept, directory: Directory, want: DirWant) -> None:
        """Have the gates of engines told what the want says of them."""
        if kept.gate is not None:
            kept.gate.tell(want.rule)
            return
        kept.gate = GateFile(directory.path, want.rule)
        kept.gate_task = self._begin(kept.gate.run(), f"gate.json of {directory.path}")

    def _start(self, key: CacheKey, directory: Directory, want: DirWant | None) -> None:
        address = CacheAddress(self._settings.node, key.namespace, key.kvcache, str(directory.socket))
        watcher = SocketWatcher(address, directory, self._around, partial(self._say, key))
        task = self._begin(watcher.run(), f"watch {address.path}")
        self._kept[key] = _Kept(watcher, task, want)

    def _drop(self, step: Drop) -> None:
        kept = self._kept.pop(step.key, None)
        if kept is not None:
            kept.task.cancel()
            if kept.gate_task is not None:
                kept.gate_task.cancel()
        if name_complaint(step.key) is None:
            GateFile(self._path(step.key), step.want.rule).remove()
        gone = SocketGoneV1(cache=step.key.kvcache, namespace=step.key.namespace, node=self._settings.node)
        self._speak(gone, step.want.id, step.want.traceparent)
        if name_complaint(step.key) is None and step.key not in self._emptying:
            path = self._path(step.key)
            self._emptying[step.key] = self._begin(self._empty_later(step.key), f"empty {path}")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start what outlives the handling of its want, and so is no part of its span."""
        return self._group.create_task(work, name=name, context=self._untraced.copy())

    def _say(self, key: CacheKey, event: Said) -> None:
        """Name the want as the cause of an answer; its trace ends with the first one."""
        kept = self._kept[key]
        want = kept.want if isinstance(event, SocketReadyV1) else None
        trace = want.traceparent if want is not None and not kept.traced else None
        kept.traced = kept.traced or want is not None
        if isinstance(event, SocketReadyV1) and event.incarnation in _NOT_OURS:
            _log.warning("a daemon that kvberth did not start answers here", path=event.path)
        _log.info("socket", **event.model_dump(mode="json", exclude={"node"}), said=event.ce_type)
        self._speak(event, want.id if want else None, trace)
        self._note_looked()

    def _note_looked(self) -> None:
        if self._first_wants and all(kept.watcher.looked for kept in self._kept.values()):
            self.looked.set()

    def _refused(self, step: Refuse) -> SocketLostV1:
        return SocketLostV1(
            cache=step.key.kvcache,
            namespace=step.key.namespace,
            node=self._settings.node,
            path="",
            reason=SocketLostReason.MISSING,
            message=step.sentence,
        )

    async def _empty_later(self, key: CacheKey) -> None:
        """Empty a dropped directory once nobody answers there any more; a new keep cancels this."""
        directory = self._path(key)
        said: str | None = None
        while True:
            await asyncio.sleep(self._settings.empty_after_s)
            used = await self._used(directory)
            if used is None:
                break
            if used != said:
                _log.warning("a dropped directory is left as it is", directory=str(directory), reason=used)
            said = used
        await _empty(directory)
        del self._emptying[key]

    async def _used(self, directory: Path) -> str | None:
        """Why somebody may use a directory; None when certainly nobody does."""
        try:
            await probe(Directory(directory, None).socket, timeout_s=self._around.pace.answer_s)
        except _NOBODY:
            return None
        except VineyardError as error:
            return f"somebody may use it: {error}"
        return "a daemon answers there"

    def _path(self, key: CacheKey) -> Path:
        return self._settings.root / key.namespace / key.kvcache


async def _empty(directory: Path) -> None:
    """Empty a directory in a thread, and tell what stays; a thread that hangs is told to give up and left alone."""
    given_up = threading.Event()
    try:
        async with asyncio.timeout(_EMPTY_S):
            complaints = await asyncio.to_thread(empty, directory, given_up)
    except TimeoutError:
        complaints = [f"{directory} could not be emptied within {_EMPTY_S:g} s; does its file system hang?"]
    finally:
        given_up.set()
    for complaint in complaints:
        _log.warning(complaint)


def _headers(want: DirWant) -> dict[str, str] | None:
    return {"traceparent": want.traceparent} if want.traceparent is not None else None
