"""The way to the API server: credentials from a kubeconfig or from the pod, read anew when they expire.

kubernetes-asyncio reads the credentials and keeps the connections; its typed models, its Watch and its leader election
are not used (they block the loop, swallow errors, or leave two leaders).
"""

import asyncio
import os

import aiohttp
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config.incluster_config import SERVICE_HOST_ENV_NAME

from kvberth.kube.errors import KubeSettingsError
from kvberth.kube.settings import ClientSettings

# What the loader raises for a file that is none, or is cut off, or of another shape.
_UNREADABLE = (
    config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError, TimeoutError
)  # fmt: skip
_LOAD_S = 15.0  # a kubeconfig may run a program to get its token


async def open_api(settings: ClientSettings) -> ApiClient:
    """A client with the present credentials.

    Raises:
        KubeSettingsError: there are none, or they can't be read.
    """
    configuration = Configuration()
    try:
        async with asyncio.timeout(_LOAD_S):
            await _load(settings, configuration)
    except _UNREADABLE as error:
        raise KubeSettingsError(f"{_source(settings)} gives no way to an API server: {error or 'timed out'}") from error
    api = ApiClient(configuration)
    api.user_agent = settings.user_agent
    return api


async def bearer(api: ApiClient) -> dict[str, str]:
    """The headers that say who asks; a rotated token of the pod is read at most a minute late."""
    headers: dict[str, str] = {}
    await api.update_params_for_auth(headers, [], ["BearerToken"])
    return headers


async def send(
    api: ApiClient, method: str, path: str, headers: dict[str, str], query: list[tuple[str, str]], body: object
) -> aiohttp.ClientResponse:
    """Send a request and return its answer, unread and unjudged. The caller keeps the deadline."""
    all_headers = {"User-Agent": api.user_agent, "Accept": "application/json", **headers, **await bearer(api)}
    response: aiohttp.ClientResponse = await api.rest_client.request(
        method,
        api.configuration.host + path,
        query_params=query,
        headers=all_headers,
        body=body,
        _preload_content=False,
        _request_timeout=aiohttp.ClientTimeout(total=None),
    )
    return response


def in_cluster() -> bool:
    """Whether this process has a pod's ServiceAccount."""
    return bool(os.environ.get(SERVICE_HOST_ENV_NAME))


async def _load(settings: ClientSettings, configuration: Configuration) -> None:
    if settings.kubeconfig is None and in_cluster():
        config.load_incluster_config(client_configuration=configuration)
        return
    path = str(settings.kubeconfig) if settings.kubeconfig else None
    await config.load_kube_config(
        config_file=path, context=settings.context, client_configuration=configuration, persist_config=False
    )


def _source(settings: ClientSettings) -> str:
    if settings.kubeconfig is not None:
        return f"kubeconfig {settings.kubeconfig}"
    return "the pod's ServiceAccount" if in_cluster() else "KUBECONFIG or ~/.kube/config"
