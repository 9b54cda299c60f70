"""Applies plans on bare machines: wants for the nodes' runners and agents, and the log of what was done.

Decides nothing. A want is never taken back by silence: only `Remove` and `Release` say stop or drop, only `Finish` and
`Forget` clean up.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from kvberth.bus import Bus, BusTimeout, Row, Writer
from kvberth.placement import facts
from kvberth.placement.additions import cpu_millis
from kvberth.placement.apply import Standing
from kvberth.placement.apply.log import log_event
from kvberth.placement.apply.purges import Purges
from kvberth.placement.snapshot import LiveWorkload
from kvberth.placement.states import Wanted, WorkloadKey
from kvberth.placement.steps import AnyStep, Claim, Finish, Forget, Place, Release, Remove, Restart
from kvberth_schemas import subjects
from kvberth_schemas.requests import WorkloadReply, WorkloadRequest
from kvberth_schemas.subjects import Verb, WantKind, WantSubject
from kvberth_schemas.wants import CacheWantV1, DirWantV1, Why

_LOOK_S = 5.0  # at the view, if it never says that it changed
_ADOPT_S = 30.0
_SPARE_S = 1.0

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Wants:
    cache: CacheWantV1 | None
    directory: DirWantV1 | None
    wanted: Wanted


class BareBackend:
    """What placement asks of the bare nodes."""

    def __init__(self, bus: Bus, writer: Writer, term: int, now: Callable[[], datetime]) -> None:
        """`writer` owns the wants of caches and directories."""
        self._bus = bus
        self._writer = writer
        self._term = term
        self._now = now
        self._standing: dict[_Key, _Wants] = {}
        self._purges = Purges(writer)

    async def run(self) -> None:
        """Remove from the bus what is done, until cancelled."""
        await self._purges.run()

    async def adopt(self) -> Iterable[Standing]:
        """Read the wants of earlier lives whole, and say them again under our own term.

        Raises:
            BusTimeout: they could not be read within 30 s; nothing was adopted.
        """
        try:
            async with (
                asyncio.timeout(_ADOPT_S),
                self._bus.view([subjects.wants_of(WantKind.CACHE), subjects.wants_of(WantKind.DIR)]) as view,
            ):
                while not view.complete:
                    await view.changed(_LOOK_S)
                rows = dict(view.rows)
        except TimeoutError as error:
            raise BusTimeout(f"the wants of earlier lives could not be read within {_ADOPT_S:g} s") from error
        found = sorted({(item.namespace, item.object, item.node) for item in rows if isinstance(item, WantSubject)})
        for key in found:
            self._adopt_one(key, rows)
        self._writer.ready()
        return [Standing(*key, wants.wanted) for key, wants in self._standing.items()]

    async def take(self, namespace: str, step: AnyStep, plan: str) -> Standing:
        """Take one step."""
        key = (namespace, step.kvcache, step.node)
        if isinstance(step, Place):
            await self._spare(key)
            self._place(key, step)
        elif isinstance(step, Claim):
            await self._spare(key, WantKind.DIR)  # a stop that is being removed would make a drop of it later
            self._claim(key, step)
        elif isinstance(step, Release):
            await self._spare(key)
            self._release(key)
        elif isinstance(step, Remove):
            await self._spare(key)
            self._remove(key, step)
        elif isinstance(step, Restart):
            self._restart(key, step)
        await self._tell(namespace, step, plan)
        if isinstance(step, Finish | Forget):  # once that is told, which nobody could do later
            self._clean_up(key)
        standing = self._standing.get(key)
        return Standing(*key, standing.wanted if standing is not None else None)

    def settle(self, namespace: str) -> None:
        """Nothing: the writer of the wants keeps them as they were said."""

    async def workload(self, namespace: str, key: WorkloadKey) -> LiveWorkload:
        """Ask the scheduler."""
        kind, name = key
        asked = WorkloadRequest(namespace=namespace, kind=kind, name=name)
        reply = await self._bus.request(Verb.WORKLOAD, asked, WorkloadReply)
        return LiveWorkload(reply.found, reply.wanted, reply.bound)

    def blind(self) -> str | None:
        """Nothing: all that it owns is on the bus."""
        return None

    def _adopt_one(self, key: _Key, rows: dict[subjects.EventSubject | WantSubject, Row]) -> None:
        cache_row, dir_row = rows.get(_subject(WantKind.CACHE, key)), rows.get(_subject(WantKind.DIR, key))
        cache = cache_row.message if cache_row is not None else None
        directory = dir_row.message if dir_row is not None else None
        row = cache_row or dir_row
        if row is None:
            return
        cache = cache.model_copy(update={"term": self._term}) if isinstance(cache, CacheWantV1) else None
        directory = directory.model_copy(update={"term": self._term}) if isinstance(directory, DirWantV1) else None
        if _is_claim(cache_row, dir_row):
            self._purges.ask(_subject(WantKind.CACHE, key))
            cache, row = None, dir_row or row
        elif cache is not None and cache.state == "stop":
            directory = _drop(cache)  # whoever said stop may have died before it said this
        wanted = facts.wanted(cache, directory, facts.cause_of(row.envelope, row.sequence), row.envelope.cause)
        self._put(key, _Wants(cache, directory, wanted))

    def _place(self, key: _Key, step: Place) -> None:
        old = self._standing.get(key)
        running = old.wanted if old is not None and old.wanted.run else None
        cache = _run(key[0], step, self._term)
        if old is not None and old.cache is not None and running is not None and running.uid == step.uid:
            cache = old.cache  # renewing the directory must not restart the cache
        self._put(key, _Wants(cache, _keep(key[0], step, self._term), _wanted(step, cache, running, self._now())))

    def _claim(self, key: _Key, step: Claim) -> None:
        wanted = replace(facts.claimed(step.gate, step.uid, None, self._now()), cause=step.cause)
        self._put(key, _Wants(None, _keep(key[0], step, self._term), wanted))

    def _release(self, key: _Key) -> None:
        old = self._standing.get(key)
        if old is not None and old.directory is not None:
            dropped = old.directory.model_copy(update={"state": "drop", "why": Why.IDLE, "term": self._term})
            self._put(key, _Wants(None, dropped, facts.released(old.wanted, self._now())))

    def _remove(self, key: _Key, step: Remove) -> None:
        old = self._standing.get(key)
        cache = old.cache if old is not None else None
        if cache is None:  # it runs though nobody asked for it
            cache = CacheWantV1(
                term=self._term,
                state="stop",
                why=step.why,
                namespace=key[0],
                kvcache=step.kvcache,
                kvcache_uid=step.uid,
                size_bytes=0,
            )
        cache = cache.model_copy(update={"state": "stop", "why": step.why, "term": self._term})
        now = self._now()
        wanted = facts.stopped(old.wanted if old is not None else None, cache, now)
        wanted = replace(wanted, cause=step.cause, traceparent=step.traceparent)
        self._put(key, _Wants(cache, _drop(cache), wanted))

    def _restart(self, key: _Key, step: Restart) -> None:
        """The runner ends the life that is named, and starts the next one as it is asked for now."""
        old = self._standing.get(key)
        if old is None or old.cache is None or not old.wanted.run:
            return
        size = step.size
        new = {
            "why": step.why,
            "not_incarnation": step.incarnation,
            "size_bytes": size.size_bytes,
            "block_bytes": size.block_bytes,
            "memory_bytes": size.memory_bytes,
            "cpu_millis": cpu_millis(size),
        }
        cache = old.cache.model_copy(update=new)
        wanted = replace(
            old.wanted,
            size_bytes=cache.size_bytes,
            memory_bytes=cache.memory_bytes,
            cpu_millis=cache.cpu_millis,
            block_bytes=cache.block_bytes,
            cause=step.cause,
            traceparent=step.traceparent,
        )
        self._put(key, _Wants(cache, old.directory, wanted))

    def _put(self, key: _Key, wants: _Wants) -> None:
        """Say both wants; a directory is kept before its cache runs, and dropped after it was told to stop."""
        messages: list[tuple[WantKind, CacheWantV1 | DirWantV1 | None]] = [
            (WantKind.DIR, wants.directory),
            (WantKind.CACHE, wants.cache),
        ]
        for what, message in messages if wants.wanted.run else reversed(messages):
            if message is not None:
                self._writer.put(_subject(what, key), message, cause=wants.wanted.cause)
        self._standing[key] = wants

    def _clean_up(self, key: _Key) -> None:
        if self._standing.pop(key, None) is None:
            return
        for what in (WantKind.CACHE, WantKind.DIR):
            self._purges.ask(_subject(what, key))

    async def _spare(self, key: _Key, *kinds: WantKind) -> None:
        """Nothing may remove what is about to be said, or those kinds. Raises BusTimeout while something does."""
        for what in kinds or (WantKind.CACHE, WantKind.DIR):
            if not await self._purges.spare(_subject(what, key), _SPARE_S):
                raise BusTimeout(f"{_subject(what, key)} is still being removed after its end; it is asked for later")

    async def _tell(self, namespace: str, step: AnyStep, plan: str) -> None:
        event = log_event(namespace, step, plan)
        if event is not None:
            await self._bus.publish_log(subjects.cache(namespace, step.kvcache), event, step.cause)


def _run(namespace: str, step: Place, term: int) -> CacheWantV1:
    return CacheWantV1(
        term=term,
        state="run",
        why=Why.WANTED,
        namespace=namespace,
        kvcache=step.kvcache,
        kvcache_uid=step.uid,
        pool=step.pool,
        size_bytes=step.size.size_bytes,
        memory_bytes=step.size.memory_bytes,
        cpu_millis=cpu_millis(step.size),
        env={item.name: item.value for item in step.env if item.value_from is None},
        block_bytes=step.size.block_bytes,
    )


def _keep(namespace: str, step: Place | Claim, term: int) -> DirWantV1:
    return DirWantV1(
        term=term,
        state="keep",
        why=Why.WANTED,
        namespace=namespace,
        kvcache=step.kvcache,
        gate_policy=step.gate.policy,
        gate_timeout_s=step.gate.timeout_s,
        cache=isinstance(step, Place),
    )


def _is_claim(cache: Row | None, directory: Row | None) -> bool:
    """Whether a directory was asked for alone after the end of a cache, whose stop is still there.

    Or for the next cache: placement then asks for that again. A stop that was said over it comes later.
    """
    if cache is None or directory is None or cache.sequence > directory.sequence:
        return False
    said, kept = cache.message, directory.message
    return (
        isinstance(said, CacheWantV1) and said.state == "stop" and isinstance(kept, DirWantV1) and kept.state == "keep"
    )


def _drop(stopped: CacheWantV1) -> DirWantV1:
    return DirWantV1(
        term=stopped.term,
        state="drop",
        why=stopped.why,
        namespace=stopped.namespace,
        kvcache=stopped.kvcache,
        cache=True,
    )


def _wanted(step: Place, cache: CacheWantV1, running: Wanted | None, now: datetime) -> Wanted:
    """What is asked for from now on; `running` is what was asked to run before, if anything was."""
    return Wanted(
        run=True,
        why=Why.WANTED,
        uid=step.uid,
        pool=cache.pool,
        size_bytes=cache.size_bytes,
        memory_bytes=cache.memory_bytes,
        cpu_millis=cache.cpu_millis,
        gate=step.gate,
        directory=True,
        since=now if running is None else running.since,
        cause=step.cause,
        traceparent=step.traceparent,
        started=now if running is None else running.started,
        block_bytes=cache.block_bytes,
    )


def _subject(what: WantKind, key: _Key) -> WantSubject:
    namespace, kvcache, node = key
    return subjects.want(what, node, namespace, kvcache)
