"""What the tests against the API server share: raw requests, small models, conditions with a deadline."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import Field

from kvberth.kube.client import MERGE_PATCH, Call, Client
from kvberth.kube.errors import NotFound
from kvberth.kube.kinds import Kind, whole
from kvberth.kube.listing import Selection
from kvberth.kube.objects import KubeObject
from kvberth.kube.reflector import Reflector
from kvberth.kube.resources import CONFIG_MAPS, LEASES, Resource
from kvberth.kube.settings import BackoffSettings, ReflectorSettings
from kvberth.kube.store import Change
from support.waiting import until

SOMEBODY = (("fieldManager", "somebody"),)
QUICK = ReflectorSettings(floor_s=0.2, backoff=BackoffSettings(first_s=0.1, most_s=0.5))


class ConfigMap(KubeObject):
    """Served without a watch cache here."""

    data: dict[str, str] = Field(default_factory=dict)


class Lease(KubeObject):
    """Served from the watch cache."""


CONFIG: Kind[ConfigMap] = whole(CONFIG_MAPS, ConfigMap)
LEASE: Kind[Lease] = whole(LEASES, Lease)


async def create(client: Client, resource: Resource, namespace: str | None, body: dict[str, Any]) -> dict[str, Any]:
    named = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    path = resource.path(namespace)
    call = Call(what=f"POST {resource.kind}", path=path, method="POST", body=named, query=SOMEBODY)
    return json.loads(await client.request(call))


async def get(client: Client, resource: Resource, namespace: str | None, name: str) -> dict[str, Any]:
    return json.loads(await client.request(Call(what=f"GET {name}", path=resource.path(namespace, name))))


async def merge(
    client: Client, resource: Resource, namespace: str | None, name: str, patch: Any, subresource: str | None = None
) -> dict[str, Any]:
    path = resource.path(namespace, name, subresource)
    call = Call(what=f"PATCH {name}", path=path, method="PATCH", body=patch, content_type=MERGE_PATCH, query=SOMEBODY)
    return json.loads(await client.request(call))


async def delete(client: Client, resource: Resource, namespace: str | None, name: str, **options: Any) -> None:
    path = resource.path(namespace, name)
    await client.request(Call(what=f"DELETE {name}", path=path, method="DELETE", body=options))


async def items(client: Client, resource: Resource, namespace: str | None, labels: str = "") -> list[dict[str, Any]]:
    call = Selection(namespace=namespace, labels=labels).call("list", resource, ())
    return list(json.loads(await client.request(call))["items"])


async def absent(client: Client, resource: Resource, namespace: str | None, name: str) -> bool:
    try:
        await get(client, resource, namespace, name)
    except NotFound:
        return True
    return False


async def put_config(client: Client, namespace: str, name: str, **data: str) -> dict[str, Any]:
    return await create(client, CONFIG_MAPS, namespace, {"metadata": {"name": name}, "data": data})


class Watcher:
    """A running reflector and what it told."""

    def __init__(self, reflector: Reflector[Any]) -> None:
        self.reflector = reflector
        self.changes: list[Change[Any]] = []
        reflector.add_listener(self.changes.append)

    @property
    def told(self) -> list[str]:
        return [f"{change.verb} {change.key.name}" for change in self.changes]

    @property
    def names(self) -> set[str]:
        return {key.name for key in self.reflector.entries}


@asynccontextmanager
async def watching(
    client: Client, kind: Kind[Any], namespace: str, settings: ReflectorSettings = QUICK, labels: str = ""
) -> AsyncIterator[Watcher]:
    """A reflector that runs and is live."""
    watcher = Watcher(Reflector(client, kind, Selection(namespace=namespace, labels=labels), settings))
    running = asyncio.create_task(watcher.reflector.run())
    try:
        await until(lambda: watcher.reflector.live or running.done())
        yield watcher
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()
