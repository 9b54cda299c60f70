"""Plain requests of a scenario to an API server, as kubectl would send them: JSON in and out, each with a deadline."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kvberth.kube import APPLY_PATCH, MERGE_PATCH, Call, Client, ClientSettings, KubeError, NotFound, Resource

Json = dict[str, Any]

FIELD_MANAGER: Final = "kvberth-scenario"
PROXY_WITHIN_S: Final = 3.0
_LOG_LIMIT_BYTES: Final = 16 * 1024 * 1024


def open_client(kubeconfig: Path | None) -> Client:
    """Give a client that is not connected yet."""
    return Client(ClientSettings(kubeconfig=kubeconfig, user_agent=FIELD_MANAGER))


class Api:
    """Requests over one client. Every method raises KubeError where the answer is no, or none comes."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Json | None:
        """Give an object; None where there is none."""
        title = f"GET {resource.title(namespace, name)}"
        try:
            return _json(await self.client.request(Call(what=title, path=resource.path(namespace, name))))
        except NotFound:
            return None

    async def list(self, resource: Resource, namespace: str | None = None, labels: str = "") -> list[Json]:
        """Give the objects of a namespace, or of all."""
        query = (("labelSelector", labels),) if labels else ()
        call = Call(what=f"list of {resource.kind}", path=resource.path(namespace), query=query)
        items: list[Json] = _json(await self.client.request(call))["items"]
        return items

    async def apply(self, resource: Resource, body: Json) -> Json:
        """Apply an object by server-side apply; fields of other managers are taken over."""
        meta = body["metadata"]
        return await self._send(
            Call(
                what=f"apply of {resource.title(meta.get('namespace'), meta['name'])}",
                path=resource.path(meta.get("namespace"), meta["name"]),
                method="PATCH",
                query=(("fieldManager", FIELD_MANAGER), ("force", "true")),
                body=body,
                content_type=APPLY_PATCH,
            )
        )

    async def merge(
        self, resource: Resource, namespace: str | None, name: str, body: Json, subresource: str | None = None
    ) -> Json:
        """Change an object by a JSON merge patch."""
        return await self._send(
            Call(
                what=f"patch of {resource.title(namespace, name)}",
                path=resource.path(namespace, name, subresource),
                method="PATCH",
                query=(("fieldManager", FIELD_MANAGER),),
                body=body,
                content_type=MERGE_PATCH,
            )
        )

    async def create(self, resource: Resource, namespace: str, name: str, body: Json, subresource: str) -> Json:
        """Post a subresource, such as an eviction."""
        what = f"{subresource} of {resource.title(namespace, name)}"
        path = resource.path(namespace, name, subresource)
        return await self._send(Call(what=what, path=path, method="POST", body=body))

    async def delete(self, resource: Resource, namespace: str | None, name: str, grace_s: int | None = None) -> bool:
        """Delete an object, with all that it owns; give whether there was one. `grace_s` None: the object's own."""
        grace = () if grace_s is None else (("gracePeriodSeconds", str(grace_s)),)
        call = Call(
            what=f"deletion of {resource.title(namespace, name)}",
            path=resource.path(namespace, name),
            method="DELETE",
            query=(("propagationPolicy", "Background"), *grace),
        )
        try:
            await self.client.request(call)
        except NotFound:
            return False
        return True

    async def proxy(self, namespace: str, pod: str, port: int, path: str, body: Json | None = None) -> bytes:
        """Ask a pod over HTTP, through the API server."""
        path, _, query = path.partition("?")
        pairs = tuple((key, value) for key, _, value in (pair.partition("=") for pair in query.split("&") if pair))
        call = Call(
            what=f"{path} of pod {namespace}/{pod}",
            path=f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{path}",
            method="GET" if body is None else "POST",
            query=pairs,
            body=body,
        )
        return await self.client.request(call, PROXY_WITHIN_S)

    async def log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> Sequence[str] | str:
        """Give the lines of a container's log, or why there are none."""
        query = (("container", container), ("limitBytes", str(_LOG_LIMIT_BYTES)))
        call = Call(
            what=f"log of pod {namespace}/{pod}",
            path=f"/api/v1/namespaces/{namespace}/pods/{pod}/log",
            query=(*query, *((("previous", "true"),) if previous else ())),
        )
        try:
            return (await self.client.request(call)).decode(errors="replace").splitlines()
        except KubeError as error:
            return str(error)

    async def _send(self, call: Call) -> Json:
        return _json(await self.client.request(call))


def _json(body: bytes) -> Json:
    value: Json = json.loads(body)
    return value
