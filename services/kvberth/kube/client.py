"""Requests to the API server: raw bytes out and in, each with a deadline, each refusal as an error of its own.

Knows no kinds and keeps no state but the connections and the credentials.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from kvberth.kube.access import open_api, send
from kvberth.kube.errors import DeadlinePassed, Unauthorized, Unreachable
from kvberth.kube.refusals import refusal
from kvberth.kube.settings import ClientSettings

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"

Read = Callable[[], Awaitable[bytes]]

_CHUNK = 256 * 1024
_SAID_BYTES = 2**20
_SAID_S = 2.0  # how long a refusal's text may take to come
_NETWORK_FAULTS = (aiohttp.ClientError, OSError, ValueError)  # ValueError: an answer that is no HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `what` names it in errors: ``list of Pod``."""

    what: str
    path: str
    method: str = "GET"
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    content_type: str = JSON


class Client:
    """One set of credentials and connections; an async context manager."""

    def __init__(self, settings: ClientSettings) -> None:
        """Nothing is read or connected before the block opens."""
        self.settings = settings
        self._loaded_at = float("-inf")
        self._reloading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Read the credentials.

        Raises:
            KubeSettingsError: there are none, or they can't be read.
        """
        self._api = await open_api(self.settings)
        self._retired: list[Any] = []
        self._loaded_at = time.monotonic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        for api in (*self._retired, self._api):
            await api.close()

    async def request(self, call: Call, timeout_s: float | None = None) -> bytes:
        """Ask, and return the body of a 2xx answer.

        Raises:
            Refused: the server's answer is no, by one of its subclasses.
            DeadlinePassed, Unreachable: no usable answer; a write may have taken place.
        """
        limit_s = timeout_s or self.settings.request_s
        try:
            async with asyncio.timeout(limit_s):
                async with self._answer(call) as response:
                    with _network(call):
                        return await _read(call, response, self.settings.max_answer_bytes)
        except TimeoutError as error:
            raise DeadlinePassed(f"{call.what} got no complete answer within {limit_s:g} s") from error

    @asynccontextmanager
    async def stream(self, call: Call, open_s: float, silence_s: float) -> AsyncIterator[Read]:
        """Ask, and yield what reads the next piece of a 2xx answer; no bytes are its end.

        Raises:
            Refused, Unreachable: as `request`; DeadlinePassed also where no byte comes for `silence_s`.
        """
        opening = asyncio.timeout(open_s)
        try:
            async with opening, self._answer(call) as response:
                opening.reschedule(None)
                yield partial(_piece, call, response, silence_s)
        except TimeoutError as error:
            if not opening.expired():
                raise
            raise DeadlinePassed(f"{call.what} was not answered within {open_s:g} s") from error

    @asynccontextmanager
    async def _answer(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        with _network(call):
            headers = {"Content-Type": call.content_type}
            response = await send(self._api, call.method, call.path, headers, list(call.query), call.body)
        try:
            if not 200 <= response.status <= 299:
                await self._refuse(call, response)
            yield response
        finally:
            _drop(response)

    async def _refuse(self, call: Call, response: aiohttp.ClientResponse) -> None:
        body = bytearray()
        with _network(call):
            try:
                async with asyncio.timeout(_SAID_S):
                    while len(body) < _SAID_BYTES and (chunk := await response.content.read(_CHUNK)):
                        body += chunk
            except TimeoutError:
                pass  # the status alone says what matters; what came is quoted
        error = refusal(call.what, response.status, bytes(body), response.headers.get("Retry-After"))
        if isinstance(error, Unauthorized):
            await self._reload()
        raise error

    async def _reload(self) -> None:
        """Read the credentials anew; those that run on old connections may finish."""
        async with self._reloading:
            if time.monotonic() - self._loaded_at < self.settings.reload_every_s:
                return
            self._loaded_at = time.monotonic()
            fresh = await open_api(self.settings)
            while self._retired:
                await self._retired.pop().close()
            self._retired.append(self._api)
            self._api = fresh


def _drop(response: aiohttp.ClientResponse) -> None:
    """End an answer; its connection goes on living only where all was read."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()  # close() would say goodbye over TLS to a peer that still sends
    response.close()


@contextmanager
def _network(call: Call) -> Iterator[None]:
    """Stands inside our deadlines, never around them: a TimeoutError seen here is the kernel's."""
    try:
        yield
    except _NETWORK_FAULTS as error:
        raise Unreachable(f"{call.what} failed: {type(error).__name__}: {error}") from error


async def _read(call: Call, response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    while chunk := await response.content.read(_CHUNK):
        body += chunk
        if len(body) > limit:
            raise Unreachable(f"{call.what} was answered with more than {limit} bytes")
    return bytes(body)


async def _piece(call: Call, response: aiohttp.ClientResponse, silence_s: float) -> bytes:
    try:
        async with asyncio.timeout(silence_s):
            with _network(call):
                return await response.content.readany()
    except TimeoutError as error:
        raise DeadlinePassed(f"{call.what} said nothing for {silence_s:g} s") from error
