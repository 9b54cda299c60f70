"""Writes against a real API server: create, apply, ownership, preconditions, status, deletion, eviction."""

import asyncio
from typing import Any

import pytest

from kube.rig import CONFIG, create, get, merge, put_config
from kvberth.kube.applier import Applier, Target
from kvberth.kube.client import Call, Client
from kvberth.kube.conflicts import ConflictKind, explain
from kvberth.kube.errors import (
    AlreadyExists,
    Conflict,
    DeadlinePassed,
    Invalid,
    NotFound,
    ServerTrouble,
    Throttled,
    Unreachable,
)
from kvberth.kube.listing import get as read
from kvberth.kube.resources import CONFIG_MAPS, DAEMON_SETS, PODS
from support.tcp_proxy import TcpProxy, http_answer


def target(namespace: str, name: str = "one", **planned: str) -> Target:
    return Target(CONFIG_MAPS, namespace, name, **planned)


def daemon_set(*env: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "env": [{"name": name, "value": "1"} for name in env]}
    labels = {"app": "x"}
    never = {"key": "nowhere", "operator": "Exists"}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [never]}]}
    }
    return {
        "spec": {
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"affinity": {"nodeAffinity": affinity}, "containers": [container]},
            },
        }
    }


async def test_a_create_meets_a_name_that_somebody_has(client: Client, namespace: str) -> None:
    applier = Applier(client)
    made = await applier.create(target(namespace), {"data": {"a": "1"}})
    assert made.uid
    with pytest.raises(AlreadyExists, match=f"create of ConfigMap {namespace}/one was refused with 409 AlreadyExists"):
        await applier.create(target(namespace), {"data": {"a": "2"}})


async def test_an_apply_takes_away_what_our_own_create_put_there(client: Client, namespace: str) -> None:
    applier = Applier(client)
    where = Target(DAEMON_SETS, namespace, "one")
    await applier.create(where, daemon_set("KEEP", "DROP"))
    await applier.apply(where, daemon_set("KEEP"))
    stored = await get(client, DAEMON_SETS, namespace, "one")
    (container,) = stored["spec"]["template"]["spec"]["containers"]
    assert [env["name"] for env in container["env"]] == ["KEEP"]


async def test_an_apply_repairs_a_create_whose_life_ended_before_it_was_done(client: Client, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace)
    body = {"metadata": {"name": "one"}, "data": {"keep": "1", "drop": "1"}}
    query = (("fieldManager", "kvberth"),)
    await client.request(Call(what="create", path=path, method="POST", query=query, body=body))
    await merge(client, CONFIG_MAPS, namespace, "one", {"data": {"users": "1"}})
    await Applier(client).apply(target(namespace), {"data": {"keep": "2"}})
    assert (await get(client, CONFIG_MAPS, namespace, "one"))["data"] == {"keep": "2", "users": "1"}


async def test_an_unchanged_apply_changes_no_version(client: Client, namespace: str) -> None:
    applier, body = Applier(client), {"metadata": {"labels": {"a": "b"}}, "data": {"a": "1"}}
    await applier.create(target(namespace), body)
    first = await applier.apply(target(namespace), body)
    assert (await applier.apply(target(namespace), body)).resource_version == first.resource_version


async def test_fields_of_others_are_named_unless_we_force(client: Client, namespace: str) -> None:
    theirs, ours = Applier(client, "helm"), Applier(client)
    await theirs.apply(target(namespace), {"data": {"a": "theirs", "b": "theirs"}})
    with pytest.raises(Conflict) as caught:
        await ours.apply(target(namespace), {"data": {"a": "ours"}}, force=False)
    report = explain(target(namespace).title, caught.value)
    assert report.kind is ConflictKind.OWNERSHIP
    assert report.sentence == f"ConfigMap {namespace}/one was not changed: .data.a belongs to helm"
    await ours.apply(target(namespace), {"data": {"a": "ours"}})
    assert (await get(client, CONFIG_MAPS, namespace, "one"))["data"] == {"a": "ours", "b": "theirs"}


async def test_an_apply_goes_only_to_the_version_that_was_planned_from(client: Client, namespace: str) -> None:
    applier = Applier(client)
    made = await applier.create(target(namespace), {"data": {"a": "1"}})
    await merge(client, CONFIG_MAPS, namespace, "one", {"data": {"b": "2"}})
    planned = target(namespace, uid=made.uid, resource_version=made.resource_version)
    with pytest.raises(Conflict) as caught:
        await applier.apply(planned, {"data": {"a": "3"}})
    assert explain("it", caught.value).kind is ConflictKind.VERSION


async def test_an_apply_makes_no_object_anew_that_was_planned_for_under_another_uid(
    client: Client, namespace: str
) -> None:
    applier = Applier(client)
    first = await applier.create(target(namespace), {"data": {"a": "1"}})
    await applier.delete(target(namespace, uid=first.uid))
    planned = target(namespace, uid=first.uid)
    with pytest.raises(Conflict) as caught:
        await applier.apply(planned, {"data": {"a": "2"}})
    assert explain("it", caught.value).kind is ConflictKind.IDENTITY
    await applier.create(target(namespace), {"data": {"a": "another"}})
    with pytest.raises(Conflict) as caught:
        await applier.apply(planned, {"data": {"a": "2"}})
    assert explain("it", caught.value).kind is ConflictKind.IDENTITY
    with pytest.raises(Conflict) as caught:
        await applier.delete(planned)
    assert explain("it", caught.value).kind is ConflictKind.IDENTITY


async def test_a_status_is_written_apart_from_the_spec(client: Client, namespace: str) -> None:
    applier = Applier(client)
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}  # nobody else writes its status
    made = await applier.create(Target(PODS, namespace, "one"), {"spec": spec})
    where = Target(PODS, namespace, "one", uid=made.uid, resource_version=made.resource_version)
    await applier.patch_status(where, {"phase": "Running"})
    stored = await get(client, PODS, namespace, "one")
    assert stored["status"]["phase"] == "Running"
    with pytest.raises(Conflict):
        await applier.patch_status(where, {"phase": "Failed"})
    with pytest.raises(NotFound):
        await applier.patch_status(Target(PODS, namespace, "two", resource_version="1"), {"phase": "Failed"})
    with pytest.raises(ValueError, match="needs the resourceVersion"):
        await applier.patch_status(Target(PODS, namespace, "one", uid=made.uid), {"phase": "Failed"})


async def test_a_dry_run_writes_nothing(client: Client, namespace: str) -> None:
    applier = Applier(client)
    await applier.create(target(namespace), {"data": {"a": "1"}}, dry_run=True)
    with pytest.raises(NotFound):
        await get(client, CONFIG_MAPS, namespace, "one")
    await applier.create(target(namespace), {"data": {"a": "1"}})
    await applier.apply(target(namespace), {"data": {"a": "2"}}, dry_run=True)
    await applier.delete(target(namespace), dry_run=True)
    assert (await get(client, CONFIG_MAPS, namespace, "one"))["data"] == {"a": "1"}


async def test_a_faulty_object_is_refused_with_the_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"spec\.template\.spec\.containers"):
        await Applier(client).create(
            Target(DAEMON_SETS, namespace, "one"), {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": {}}}
        )


async def running_pod(client: Client, namespace: str, name: str, node: str = "nowhere") -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    await create(client, PODS, namespace, {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    ready = {"type": "Ready", "status": "True"}
    return await merge(
        client, PODS, namespace, name, {"status": {"phase": "Running", "conditions": [ready]}}, subresource="status"
    )


async def test_a_bound_pod_is_terminating_for_its_grace_period_and_ends_at_once_with_zero(
    client: Client, namespace: str
) -> None:
    await running_pod(client, namespace, "one")
    applier, where = Applier(client), Target(PODS, namespace, "one")
    await applier.delete(where, grace_s=30)
    stored = await get(client, PODS, namespace, "one")
    assert stored["metadata"]["deletionGracePeriodSeconds"] == 30
    await applier.delete(where, grace_s=0)
    with pytest.raises(NotFound):
        await get(client, PODS, namespace, "one")


async def test_an_eviction_is_tried_without_evicting_and_a_budget_says_why_not(client: Client, namespace: str) -> None:
    pod = await running_pod(client, namespace, "one")
    applier, where = Applier(client), Target(PODS, namespace, "one", uid=pod["metadata"]["uid"])
    assert (await applier.evict(where, dry_run=True)).allowed
    with pytest.raises(Conflict):
        await applier.evict(Target(PODS, namespace, "one", uid="another"), dry_run=True)
    budgets = "/apis/policy/v1/namespaces/" + namespace + "/poddisruptionbudgets"
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    await client.request(Call(what="budget", path=budgets, method="POST", body=body))
    async with asyncio.timeout(20):
        while (await applier.evict(where, dry_run=True)).allowed:  # noqa: ASYNC110 - the controller's, no event tells
            await asyncio.sleep(0.05)
    refused = await applier.evict(where, dry_run=True)
    assert "disruption budget b needs 1 healthy pods and has 1 currently" in refused.message.replace("The ", "")
    assert "deletionTimestamp" not in (await get(client, PODS, namespace, "one"))["metadata"]


async def test_a_write_through_a_broken_network_is_unknown_or_refused_in_a_sentence(
    proxied: Client, proxy: TcpProxy, namespace: str
) -> None:
    applier = Applier(proxied)
    proxy.answer("configmaps", http_answer("429 Too Many Requests", b"busy", "Retry-After: 3"))
    with pytest.raises(Throttled) as throttled:
        await applier.create(target(namespace), {})
    assert throttled.value.retry_after_s == 3
    proxy.answer("configmaps", http_answer("502 Bad Gateway", b"<html>no</html>", content_type="text/html"))
    with pytest.raises(ServerTrouble, match="502: <html>no</html>"):
        await applier.create(target(namespace), {})
    proxy.answer("configmaps", http_answer("201 Created", b"<html>yes?</html>", content_type="text/html"))
    with pytest.raises(Unreachable, match="no JSON"):
        await applier.create(target(namespace), {})
    proxy.answer("eviction", http_answer("429 Too Many Requests", b"busy"))
    with pytest.raises(Throttled):
        await applier.evict(Target(PODS, namespace, "one"), dry_run=True)
    proxy.silence()
    with pytest.raises(DeadlinePassed, match=r"within 0\.3 s"):
        await proxied.request(Call(what="GET it", path=CONFIG_MAPS.path(namespace)), timeout_s=0.3)
    await proxy.close()
    with pytest.raises(Unreachable, match="create of ConfigMap"):
        await applier.create(target(namespace), {})


async def test_one_object_is_read_as_it_is_now(client: Client, namespace: str) -> None:
    made = await put_config(client, namespace, "one", a="1")
    found = await read(client, CONFIG, namespace, "one")
    assert found is not None
    assert found.resource_version == made["metadata"]["resourceVersion"]
    assert await read(client, CONFIG, namespace, "none") is None
