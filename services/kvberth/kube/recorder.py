"""Says to users of kubectl what happened: Kubernetes Events, written beside the work and never in its way.

A burst is bounded, repetitions are counted in one object, and what can't be written is dropped and counted.
"""

import asyncio
import uuid
from datetime import UTC, datetime
from random import Random
from typing import Any

import structlog

from kvberth.kube.client import MERGE_PATCH, Call, Client
from kvberth.kube.errors import AlreadyExists, KubeError, NotFound, Refused, ServerTrouble, Throttled, Unauthorized
from kvberth.kube.metrics import Metrics
from kvberth.kube.pace import Pace
from kvberth.kube.resources import EVENTS
from kvberth.kube.settings import RecorderSettings
from kvberth.kube.tally import Occurrence, Series, Tally, short_note

_MICRO = "%Y-%m-%dT%H:%M:%S.%fZ"

_log = structlog.get_logger(__name__)


class EventRecorder:
    """Events of one controller; `run()` in a task group of the owner writes them."""

    def __init__(
        self,
        client: Client,
        settings: RecorderSettings,
        *,
        metrics: Metrics | None = None,
        random: Random | None = None,
    ) -> None:
        """Nothing is written before `run()`."""
        self._client, self._settings = client, settings
        self._metrics = metrics or Metrics()
        self._tally = Tally(settings)
        self._pace = Pace(settings.backoff, random or Random())  # noqa: S311 - spreads load, guards nothing
        self._changed = asyncio.Event()
        self._dropped = 0

    def record(self, what: Occurrence) -> None:
        """Take an occurrence to be told; never blocks."""
        self._tally.note(what, self._name_for(what), datetime.now(UTC), self._now())
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            due = self._tally.due(self._now())
            if due is not None:
                await self._write(*due)
            else:
                await self._rest()
            self._count_dropped()

    async def _rest(self) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(self._tally.wait_s(self._now())):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _write(self, what: Occurrence, series: Series) -> None:
        count = series.count
        try:
            await self._client.request(self._call(what, series, count), self._settings.request_s)
        except AlreadyExists:
            pass  # an earlier try whose answer never came
        except NotFound as error:
            if series.written:
                self._tally.renew(series, self._name_for(what))
                return
            self._give_up(what, error)  # its namespace is gone
            return
        except KubeError as error:
            self._fail(what, series, error)
            return
        self._pace.reset()
        self._metrics.count("events", outcome="counted" if series.written else "written")
        self._tally.wrote(series, count, self._now())

    def _fail(self, what: Occurrence, series: Series, error: KubeError) -> None:
        passing = not isinstance(error, Refused) or isinstance(error, (ServerTrouble, Throttled, Unauthorized))
        if not passing:
            self._give_up(what, error)
            return
        asked_s = error.retry_after_s if isinstance(error, Refused) else None
        if self._tally.failed(what, series, self._now() + self._pace.wait_s(asked_s=asked_s)):
            self._metrics.count("events", outcome="retried")
        else:
            _log.warning("event given up", reason=what.reason, regarding=what.regarding.name, why=str(error))

    def _give_up(self, what: Occurrence, error: KubeError) -> None:
        _log.warning("event refused", reason=what.reason, regarding=what.regarding.name, why=str(error))
        self._tally.give_up(what)

    def _count_dropped(self) -> None:
        new = self._tally.dropped - self._dropped
        if new:
            self._dropped += new
            self._metrics.count("events", new, outcome="dropped")

    def _call(self, what: Occurrence, series: Series, count: int) -> Call:
        namespace = what.regarding.namespace or "default"
        title = f"Event {what.reason} about {what.regarding.kind} {what.regarding.name}"
        told = {"count": count, "lastObservedTime": series.last_at.strftime(_MICRO)}
        if series.written:
            path = EVENTS.path(namespace, series.name)
            return Call(
                what=f"count of {title}",
                path=path,
                method="PATCH",
                body={"series": told},
                content_type=MERGE_PATCH,
            )
        body = self._body(what, series, namespace)
        if count > 1:
            body["series"] = told
        return Call(what=title, path=EVENTS.path(namespace), method="POST", body=body)

    def _body(self, what: Occurrence, series: Series, namespace: str) -> dict[str, Any]:
        about = what.regarding
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": namespace},
            "eventTime": series.first_at.strftime(_MICRO),
            "type": str(what.type),
            "reason": what.reason[:128],
            "action": what.action[:128],
            "note": short_note(what.note),
            "reportingController": self._settings.controller,
            "reportingInstance": self._settings.instance[:128],
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
        }

    def _name_for(self, what: Occurrence) -> str:
        return f"{what.regarding.name[:200].rstrip('.-')}.{uuid.uuid4().hex[:16]}"

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
