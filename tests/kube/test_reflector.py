"""The reflector against a real API server: lists, watches, versions that got too old, selectors, unreadable objects."""

import asyncio
import dataclasses
import re
from typing import Any

import pytest

from kube.rig import CONFIG, LEASE, QUICK, Watcher, create, delete, merge, put_config, watching
from kvberth.kube.client import Client
from kvberth.kube.kinds import whole
from kvberth.kube.listing import Selection
from kvberth.kube.objects import KubeObject
from kvberth.kube.reflector import Reflector
from kvberth.kube.resources import CONFIG_MAPS, CRDS, LEASES, Resource
from kvberth.kube.settings import ClientSettings
from support.api_server import ControlPlane
from support.tcp_proxy import TcpProxy, http_answer
from support.waiting import until

GONE = http_answer(
    "410 Gone",
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version",'
    b'"reason":"Expired","code":410}',
)
LISTS = r"/configmaps\?(?!.*watch=true)"
WATCHES = r"/configmaps\?.*watch=true"


async def test_pages_are_listed_and_changes_follow_in_order(client: Client, namespace: str) -> None:
    for number in range(7):
        await put_config(client, namespace, f"c{number}")
    async with watching(client, CONFIG, namespace, dataclasses.replace(QUICK, page_size=3)) as watcher:
        assert {f"c{number}" for number in range(7)} <= watcher.names
        before = len(watcher.changes)
        await put_config(client, namespace, "new", a="1")
        await merge(client, CONFIG_MAPS, namespace, "new", {"data": {"a": "2"}})
        await delete(client, CONFIG_MAPS, namespace, "new")
        await until(lambda: len(watcher.changes) >= before + 3)
        assert watcher.told[before:] == ["added new", "modified new", "deleted new"]
        modified, deleted = watcher.changes[-2:]
        assert modified.before.value.data == {"a": "1"}
        assert modified.now.value.data == {"a": "2"}
        assert deleted.now is None
        assert deleted.before.value.data == {"a": "2"}


async def test_a_token_that_got_too_old_between_two_pages_begins_the_list_anew(
    plane: ControlPlane, client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    for number in range(5):
        await put_config(client, namespace, f"c{number}")
    gate = proxy.hold("continue=")
    async with asyncio.TaskGroup() as group:

        async def disturb() -> None:
            await gate.reached.wait()
            await delete(client, CONFIG_MAPS, namespace, "c0")
            await put_config(client, namespace, "late")
            plane.compact()
            gate.released.set()

        group.create_task(disturb())
        async with watching(proxied, CONFIG, namespace, dataclasses.replace(QUICK, page_size=2)) as watcher:
            assert watcher.names - {"kube-root-ca.crt"} == {"c1", "c2", "c3", "c4", "late"}
            assert "deleted c0" not in watcher.told, "nobody may be told of what the broken-off list held"
    assert proxy.count(LISTS + "(?!.*continue)") == 2


async def test_a_version_that_got_too_old_during_an_outage_is_replaced_by_a_list(
    plane: ControlPlane, client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    for name in ("same", "changed", "deleted", "recreated"):
        await put_config(client, namespace, name, a="1")
    async with watching(proxied, CONFIG, namespace) as watcher:
        await until(lambda: len(watcher.names) == 5)
        before = len(watcher.changes)
        await proxy.close()
        await merge(client, CONFIG_MAPS, namespace, "changed", {"data": {"a": "2"}})
        await delete(client, CONFIG_MAPS, namespace, "deleted")
        await delete(client, CONFIG_MAPS, namespace, "recreated")
        await put_config(client, namespace, "recreated", a="1")
        await put_config(client, namespace, "new")
        plane.compact()
        await proxy.open()
        await until(lambda: watcher.reflector.live and "new" in watcher.names)
        told = watcher.told[before:]
        assert sorted(told) == [
            "added new",
            "added recreated",
            "deleted deleted",
            "deleted recreated",
            "modified changed",
        ]
        assert told.index("deleted recreated") < told.index("added recreated")
        assert watcher.reflector.trouble == ""
    assert proxy.count(LISTS) == 2


async def test_gone_as_the_answer_to_a_watch_leads_to_a_list(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    async with watching(proxied, CONFIG, namespace) as watcher:
        proxy.answer(WATCHES, GONE)
        proxy.reset()
        await until(lambda: proxy.count(LISTS) == 2 and watcher.reflector.live)
        await put_config(client, namespace, "after")
        await until(lambda: "after" in watcher.names)


async def test_gone_for_ever_does_not_hammer(proxied: Client, proxy: TcpProxy, namespace: str) -> None:
    proxy.answer(WATCHES, GONE, times=1000)
    reflector = Reflector(proxied, CONFIG, Selection(namespace=namespace), QUICK)
    running = asyncio.create_task(reflector.run())
    await until(lambda: proxy.count(WATCHES) >= 4)
    seen = len(proxy.requests)
    await asyncio.sleep(1.0)  # the span over which requests are counted, no wait for a condition
    running.cancel()
    await asyncio.wait([running])
    assert len(proxy.requests) - seen <= 20, "at most one list and one watch per 0.1 s of back-off"
    assert reflector.synced
    assert not reflector.live
    assert "410" in reflector.trouble


async def test_bookmarks_carry_the_version_on_where_nothing_changes(
    client: Client, proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    settings = dataclasses.replace(QUICK, watch_least_s=4, watch_most_s=4)
    async with watching(proxied, LEASE, namespace, settings) as watcher:
        other = await create(client, LEASES, "default", {"metadata": {"generateName": "elsewhere-"}})
        await until(lambda: proxy.count("watch=true") >= 2)
        versions = [
            int(found.group(1))
            for line in proxy.requests
            if "watch=true" in line and (found := re.search(r"resourceVersion=(\d+)", line))
        ]
        assert versions[1] >= int(other["metadata"]["resourceVersion"]) > versions[0]
        assert watcher.reflector.live, "a watch that ends as asked is no trouble"
        assert watcher.changes == []


async def test_a_label_selector_leaves_the_others_out(client: Client, namespace: str) -> None:
    await create(client, CONFIG_MAPS, namespace, {"metadata": {"name": "in", "labels": {"app": "x"}}})
    await put_config(client, namespace, "out")
    async with watching(client, CONFIG, namespace, labels="app=x") as watcher:
        assert watcher.names == {"in"}
        await merge(client, CONFIG_MAPS, namespace, "in", {"metadata": {"labels": {"app": None}}})
        await until(lambda: watcher.told[-1:] == ["deleted in"])


class Strict(KubeObject):
    """A model that not every ConfigMap fits."""

    data: dict[str, int]


async def test_an_object_that_does_not_fit_is_unknown_and_stops_no_other(client: Client, namespace: str) -> None:
    await put_config(client, namespace, "good", a="1")
    await put_config(client, namespace, "bad", a="one")
    async with watching(client, whole(CONFIG_MAPS, Strict), namespace) as watcher:
        assert watcher.names == {"good"}
        bad = next(item for item in watcher.reflector.unreadable.values() if item.key.name == "bad")
        assert "data.a" in bad.why
        await merge(client, CONFIG_MAPS, namespace, "good", {"data": {"a": "two"}})
        await until(lambda: watcher.told[-1:] == ["unreadable good"])
        assert watcher.names == set()
        await merge(client, CONFIG_MAPS, namespace, "bad", {"data": {"a": "2"}})
        await until(lambda: watcher.told[-1:] == ["added bad"])
        await delete(client, CONFIG_MAPS, namespace, "good")
        await until(lambda: watcher.told[-1:] == ["deleted good"])


async def test_a_resync_tells_every_object_again_without_a_request(
    proxied: Client, proxy: TcpProxy, namespace: str, client: Client
) -> None:
    await put_config(client, namespace, "one")
    async with watching(proxied, CONFIG, namespace, dataclasses.replace(QUICK, resync_s=0.2)) as watcher:
        requests = len(proxy.requests)
        await until(lambda: watcher.told.count("resync one") >= 2)
        assert len(proxy.requests) == requests


def crd(plural: str, kind: str, group: str = "test.kvberth.dev", **schema: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **schema}},
    }
    names = {"plural": plural, "kind": kind}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


BIGS = Resource("test.kvberth.dev", "v1", "bigs", "Big")


class Big(KubeObject):
    """An object near the API server's limit."""

    text: str = ""


@pytest.mark.filterwarnings("ignore:Sending a large body")  # the test's own request, as large as none of ours
async def test_a_kind_that_comes_later_is_waited_for_and_its_large_objects_are_read(
    client: Client, namespace: str
) -> None:
    watcher = Watcher(Reflector(client, whole(BIGS, Big), Selection(namespace=namespace), QUICK))
    running = asyncio.create_task(watcher.reflector.run())
    try:
        await until(lambda: "404" in watcher.reflector.trouble)
        assert not watcher.reflector.synced
        await create(client, CRDS, None, crd("bigs", "Big"))
        assert await watcher.reflector.wait_synced(20)
        await until(lambda: watcher.reflector.live)
        text = "x" * 2_050_000
        await create(client, BIGS, namespace, {"metadata": {"name": "big"}, "text": text})
        await until(lambda: "big" in watcher.names)
        assert next(iter(watcher.reflector.entries.values())).value.text == text
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_credentials_that_expired_are_read_anew(plane: ControlPlane, client: Client, namespace: str) -> None:
    config = plane.kubeconfig("rotating", token="expired")
    async with Client(ClientSettings(kubeconfig=config, reload_every_s=0.1)) as rotating:
        watcher = Watcher(Reflector(rotating, CONFIG, Selection(namespace=namespace), QUICK))
        running = asyncio.create_task(watcher.reflector.run())
        try:
            await until(lambda: "401" in watcher.reflector.trouble)
            plane.kubeconfig("rotating")
            assert await watcher.reflector.wait_synced(10)
        finally:
            running.cancel()
            await asyncio.wait([running])
