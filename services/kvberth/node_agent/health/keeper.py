"""Which caches are proven: those whose sockets are watched. Follows the word of `sockets`, and knows no bus."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import structlog

from kvberth.node_agent.evidence import Evidence
from kvberth.node_agent.health.blocks import BlocksQuestion
from kvberth.node_agent.health.metrics import ProofMetrics
from kvberth.node_agent.health.prober import Prober
from kvberth.node_agent.health.verdict import Cache, Standing
from kvberth.node_agent.health.watcher import HealthWatcher, Pace
from kvberth_schemas.events import (
    CacheHealthGoneV1,
    CacheHealthV1,
    HealthReason,
    SocketGoneV1,
    SocketLostV1,
    SocketReadyV1,
    Verdict,
)

_log = structlog.get_logger(__name__)

SocketEvent = SocketReadyV1 | SocketLostV1 | SocketGoneV1
Speaker = Callable[[CacheHealthV1 | CacheHealthGoneV1], None]


@dataclass(slots=True)
class _Proven:
    watcher: HealthWatcher
    task: asyncio.Task[None]


class HealthKeeper:
    """The watchers of an agent, by namespace and name; their tasks run in the group that it is given."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        pace: Pace,
        evidence: Evidence,
        speak: Speaker,
        metrics: ProofMetrics,
    ) -> None:
        self._group = group
        self._pace = pace
        self._evidence = evidence
        self._speak = speak
        self._metrics = metrics
        self._proven: dict[tuple[str, str], _Proven] = {}
        self._earlier: dict[tuple[str, str], CacheHealthV1] = {}
        self._untraced = copy_context()
        self._said = asyncio.Event()
        metrics.follow(self.standings)

    def follow(self, event: SocketEvent) -> None:
        """Take what was just said of a socket: one that is news is proven at once, one that is gone no more."""
        key = (event.namespace, event.cache)
        proven = self._proven.get(key)
        if isinstance(event, SocketGoneV1):
            if proven is not None:
                proven.task.cancel()
                del self._proven[key]
            self._earlier.pop(key, None)
            self._speak(CacheHealthGoneV1(cache=event.cache, namespace=event.namespace, node=event.node))
        elif proven is not None:
            proven.watcher.stir()
        elif event.path:
            self._start(key, Cache(event.node, event.namespace, event.cache, event.path))
        self._said.set()

    def recall(self, earlier: CacheHealthV1 | CacheHealthGoneV1) -> None:
        """Take what an earlier life of this agent said of a cache, whether that one is proven yet or not."""
        key = (earlier.namespace, earlier.cache)
        if isinstance(earlier, CacheHealthGoneV1):
            self._earlier.pop(key, None)
        elif key in self._proven:
            self._proven[key].watcher.recall(earlier)
        else:
            self._earlier[key] = earlier

    def standings(self) -> Mapping[str, Standing]:
        """What stands of each cache that is proven, by `<namespace>/<name>`."""
        return {"/".join(key): proven.watcher.standing for key, proven in self._proven.items()}

    async def judged(self) -> None:
        """Wait until every cache that is proven now was judged once."""
        while any(standing.said is None for standing in self.standings().values()):
            self._said.clear()
            await self._said.wait()

    def stop(self) -> None:
        """Cancel every task; nothing is said about it."""
        for proven in self._proven.values():
            proven.task.cancel()

    def _start(self, key: tuple[str, str], cache: Cache) -> None:
        watcher = HealthWatcher(
            cache,
            Prober(cache.path, self._evidence),
            self._pace,
            self._say,
            self._metrics.observe,
            BlocksQuestion(cache.path, self._evidence),
            partial(datetime.now, UTC),
        )
        earlier = self._earlier.pop(key, None)
        if earlier is not None:
            watcher.recall(earlier)
        task = self._group.create_task(watcher.run(), name=f"prove {cache.path}", context=self._untraced.copy())
        self._proven[key] = _Proven(watcher, task)

    def _say(self, event: CacheHealthV1, detail: str) -> None:
        if event.verdict is Verdict.HEALTHY:
            _log.debug("health", **event.model_dump(mode="json", exclude={"node"}))
        else:
            _log.warning(
                "health",
                cache=event.cache,
                namespace=event.namespace,
                verdict=event.verdict,
                reason=event.message,
                detail=detail,
            )
        self._metrics.count(event.verdict, HealthReason(event.reason))
        self._speak(event)
        self._said.set()
