"""Finds how the API addresses a kind, by asking it: whatever a manifest holds can be applied."""

import json

from kvberth.kube import Call, Client, NotFound, Resource


class UnknownKind(Exception):  # noqa: N818 (what follows from it is the caller's)
    """The API server has no such kind."""


class Discovery:
    """Remembers what was found."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, list[Resource]] = {}

    async def resource(self, api_version: str, kind: str) -> Resource:
        """Give a kind's address.

        Raises:
            UnknownKind: the API server has none.
            KubeError: it does not say.
        """
        if api_version not in self._known:
            self._known[api_version] = await self._ask(api_version)
        for found in self._known[api_version]:
            if found.kind == kind:
                return found
        raise UnknownKind(f"the API server has no kind {kind} in {api_version or 'no apiVersion'}")

    async def _ask(self, api_version: str) -> list[Resource]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            said = json.loads(await self._client.request(Call(what=f"kinds of {api_version}", path=path)))
        except NotFound:
            return []
        return [
            Resource(group, version, one["name"], one["kind"], one["namespaced"])
            for one in said["resources"]
            if "/" not in one["name"]
        ]
