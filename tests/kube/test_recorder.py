"""Kubernetes Events as users of kubectl see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from kube.rig import delete, put_config
from kvberth.kube.client import Call, Client
from kvberth.kube.recorder import EventRecorder
from kvberth.kube.resources import EVENTS
from kvberth.kube.settings import BackoffSettings, RecorderSettings
from kvberth.kube.tally import EventType, Occurrence, Regarding
from support.tcp_proxy import TcpProxy, http_answer
from support.waiting import until

SETTINGS = RecorderSettings(
    controller="kvberth.dev/placement",
    instance="placement-0",
    series_every_s=0.3,
    attempts=3,
    backoff=BackoffSettings(first_s=0.1, most_s=0.2),
)


@asynccontextmanager
async def recording(client: Client) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client, SETTINGS)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def about(client: Client, namespace: str, note: str = "cache added on l20-b") -> Occurrence:
    made = await put_config(client, namespace, "cache")
    regarding = Regarding("v1", "ConfigMap", namespace, "cache", made["metadata"]["uid"])
    return Occurrence(regarding, EventType.NORMAL, "CacheAdded", "Place", note)


async def events(client: Client, namespace: str) -> list[dict[str, Any]]:
    return json.loads(await client.request(Call(what="events", path=EVENTS.path(namespace))))["items"]


async def until_events(client: Client, namespace: str, holds: Any) -> list[dict[str, Any]]:
    async with asyncio.timeout(15):
        while not holds(found := await events(client, namespace)):  # noqa: ASYNC110 - the server's state, no event
            await asyncio.sleep(0.05)
    return found


async def test_a_repeated_event_is_one_object_with_a_count(client: Client, namespace: str) -> None:
    what = await about(client, namespace)
    async with recording(client) as recorder:
        recorder.record(what)
        (event,) = await until_events(client, namespace, bool)
        assert (event["type"], event["reason"], event["note"]) == ("Normal", "CacheAdded", "cache added on l20-b")
        assert event["regarding"]["name"] == "cache"
        assert event["reportingController"] == "kvberth.dev/placement"
        assert "series" not in event
        for _ in range(40):
            recorder.record(what)
        recorder.record(replace(what, type=EventType.WARNING, reason="CannotFit", note="ä" * 2000))
        found = await until_events(
            client, namespace, lambda all_: any(one.get("series", {}).get("count") == 41 for one in all_)
        )
        assert {one["reason"] for one in found} == {"CacheAdded", "CannotFit"}
        assert len(found) == 2


async def test_an_event_that_vanished_is_written_anew(client: Client, namespace: str) -> None:
    what = await about(client, namespace)
    async with recording(client) as recorder:
        recorder.record(what)
        (event,) = await until_events(client, namespace, bool)
        await delete(client, EVENTS, namespace, event["metadata"]["name"])
        recorder.record(what)
        (again,) = await until_events(client, namespace, bool)
        assert again["metadata"]["name"] != event["metadata"]["name"]


async def test_events_survive_a_busy_server_and_a_lost_one_stops_no_other(
    proxied: Client, proxy: TcpProxy, client: Client, namespace: str
) -> None:
    what = await about(client, namespace)
    async with recording(proxied) as recorder:
        proxy.answer("POST .*events", http_answer("429 Too Many Requests", b"busy"), times=2)
        recorder.record(replace(what, note="kept"))
        await until_events(client, namespace, lambda found: [one["note"] for one in found] == ["kept"])
        proxy.answer("POST .*events", http_answer("503 Service Unavailable", b"down"), times=3)
        recorder.record(replace(what, note="lost"))
        await until(lambda: proxy.count("POST .*events") == 6)
        recorder.record(replace(what, regarding=replace(what.regarding, namespace="no-such-namespace")))
        recorder.record(replace(what, note="after"))
        found = await until_events(client, namespace, lambda found: len(found) == 2)
        assert sorted(one["note"] for one in found) == ["after", "kept"]
