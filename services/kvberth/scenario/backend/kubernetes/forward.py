"""A port of this machine that leads to a pod's, through the API server: what `kubectl port-forward` does.

Each connection is led to the pod that is ready at its beginning, so that a client which connects again finds the next
pod by itself. Speaks the kubelet's WebSocket form: one channel for data and one for errors, its number leads a frame.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, Self

import aiohttp

from kvberth.kube.access import bearer, open_api
from kvberth.kube.errors import KubeError
from kvberth.kube.settings import ClientSettings

DIAL_WITHIN_S: Final = 5.0
_PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_CHUNK = 64 * 1024

FindPod = Callable[[], Awaitable[str | None]]


class Forward:
    """A listening port on 127.0.0.1, as an async context manager."""

    def __init__(self, settings: ClientSettings, namespace: str, port: int, find_pod: FindPod) -> None:
        """`find_pod` gives the name of the pod to lead a new connection to; None while there is none."""
        self._settings, self._namespace, self._port, self._find_pod = settings, namespace, port, find_pod
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        """Listen."""
        self._api = await open_api(self._settings)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all connections."""
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._api.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin a connection; `__aexit__` ends what is still open."""
        task = asyncio.create_task(self._serve(reader, writer), name="forwarded connection")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._lead(reader, writer)
        except (aiohttp.ClientError, KubeError, OSError, TimeoutError):
            pass  # the client sees its connection end, and connects again
        finally:
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(DIAL_WITHIN_S):
            pod = await self._find_pod()
            if pod is None:
                return
            peer = await self._dial(pod)
        try:
            there = asyncio.create_task(_to_pod(reader, peer), name="to the pod")
            back = asyncio.create_task(_from_pod(peer, writer), name="from the pod")
            try:
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (there, back):
                    task.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DIAL_WITHIN_S):
                    await peer.close()

    async def _dial(self, pod: str) -> aiohttp.ClientWebSocketResponse:
        host = self._api.configuration.host
        url = f"{host}/api/v1/namespaces/{self._namespace}/pods/{pod}/portforward?ports={self._port}"
        session: aiohttp.ClientSession = self._api.rest_client.pool_manager
        headers = await bearer(self._api)
        return await session.ws_connect(url, headers=headers, protocols=(_PROTOCOL,), max_msg_size=0)


async def _to_pod(reader: asyncio.StreamReader, peer: aiohttp.ClientWebSocketResponse) -> None:
    while chunk := await reader.read(_CHUNK):
        await peer.send_bytes(bytes((_DATA,)) + chunk)


async def _from_pod(peer: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    greeted: set[int] = set()
    async for message in peer:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel = message.data[0]
        if channel not in greeted:  # the first frame of each channel says only the port
            greeted.add(channel)
            continue
        if channel == _ERROR:
            return
        writer.write(message.data[1:])
        await writer.drain()
