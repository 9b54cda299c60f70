"""Finds how the API addresses a kind, by asking it: whatever a manifest holds can be applied."""

import json

from kvberth.kube import Call, Client, KubeError, Resource
from kvberth.scenario.backend.protocol import ScenarioError


class Discovery:
    """Remembers what was found."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, list[Resource]] = {}

    async def resource(self, api_version: str, kind: str) -> Resource:
        """Give a kind's address.

        Raises:
            ScenarioError: the API server has no such kind.
        """
        if api_version not in self._known:
            self._known[api_version] = await self._ask(api_version)
        for found in self._known[api_version]:
            if found.kind == kind:
                return found
        raise ScenarioError(f"the API server has no kind {kind} in {api_version or 'no apiVersion'}")

    async def _ask(self, api_version: str) -> list[Resource]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        try:
            said = json.loads(await self._client.request(Call(what=f"kinds of {api_version}", path=path)))
        except KubeError as error:
            raise ScenarioError(f"the API server has no '{api_version}': {error}") from error
        return [
            Resource(group, version, one["name"], one["kind"], one["namespaced"])
            for one in said["resources"]
            if "/" not in one["name"]
        ]
