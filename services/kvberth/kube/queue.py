"""Works on keys: a bounded number at once, each with a deadline, one that fails again later.

Owns the running; which key comes when is `backlog`'s matter, what is done with it the handler's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import Generic, TypeVar

import structlog

from kvberth.kube.backlog import Backlog
from kvberth.kube.errors import KubeError, Refused
from kvberth.kube.metrics import Metrics
from kvberth.kube.settings import QueueSettings

K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger(__name__)


class WorkQueue(Generic[K]):
    """A keyed queue; `run()` in a task group of the owner works on it."""

    def __init__(
        self,
        name: str,
        settings: QueueSettings | None = None,
        *,
        metrics: Metrics | None = None,
        random: Random | None = None,
    ) -> None:
        """`name` labels the metrics."""
        self._name, self._settings = name, settings or QueueSettings()
        self._metrics = metrics or Metrics()
        self._backlog: Backlog[K] = Backlog(self._settings, random or Random())  # noqa: S311 - spreads load only
        self._changed = asyncio.Event()
        self._metrics.depth_of(name, lambda: float(len(self._backlog)))

    def __len__(self) -> int:
        """How many keys wait."""
        return len(self._backlog)

    def add(self, key: K, after_s: float = 0.0) -> bool:
        """Let a key be worked on; False, and counted, when the queue is full. Never blocks."""
        added = self._backlog.add(key, self._now(), after_s)
        if not added:
            self._metrics.count("refused_keys", queue=self._name)
        self._changed.set()
        return added

    async def run(self, handle: Callable[[K], Awaitable[None]]) -> None:
        """Work until cancelled. An error of `handle` brings its key back later, and stops no other key."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.workers):
                group.create_task(self._work(handle))

    async def _work(self, handle: Callable[[K], Awaitable[None]]) -> None:
        while True:
            key = await self._next()
            try:
                async with asyncio.timeout(self._settings.handle_s):
                    await handle(key)
            except Exception as error:  # noqa: BLE001 - one bad object must never stop the others; it is told and retried
                self._fail(key, error)
            except BaseException:
                self._backlog.failed(key, self._now())  # cancelled: whoever runs the queue again finds the key
                raise
            else:
                self._backlog.done(key)
                self._metrics.count("handled", queue=self._name, outcome="done")
            self._changed.set()

    async def _next(self) -> K:
        while True:
            key = self._backlog.take(self._now())
            if key is not None:
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout(self._backlog.wait_s(self._now())):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _fail(self, key: K, error: Exception) -> None:
        asked_s = error.retry_after_s if isinstance(error, Refused) else None
        wait_s = self._backlog.failed(key, self._now(), asked_s)
        expected = isinstance(error, (KubeError, TimeoutError))
        outcome = "failed" if expected else "error"
        self._metrics.count("handled", queue=self._name, outcome=outcome)
        why = str(error) or f"not done within {self._settings.handle_s:g} s"
        _log.warning(
            "key failed", queue=self._name, key=str(key), why=why, again_in_s=round(wait_s, 1), exc_info=not expected
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
