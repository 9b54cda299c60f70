"""A client that signs in over TLS or not at all. Decides nothing about certificates: see `login`.

nats-py asks for TLS only where the server's first words say so, and whoever stands between could take that out of them.
"""

from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client

from kvberth.bus.errors import BusError


class NotWrapped(BusError):  # noqa: N818 - as in errors.py
    """TLS was asked for, and the server offers none; nothing was told to it."""


class WrappedClient(Client):
    """Refuses a server that does not ask for TLS, before it is told who we are."""

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        # nats-py's only place between a server's first words and our own; a test holds it to that.
        if initial_connection and not info.get("tls_required"):
            raise NotWrapped("the server offers no TLS, which is asked for here; nothing was told to it")
        await super()._process_info(info, initial_connection)


def client_for(url: str, *, tls: bool) -> Client:
    """Give a client for one connection; `tls`: it is asked for.

    Raises:
        NotWrapped: the URL's scheme can't be wrapped.
    """
    scheme = urlsplit(url).scheme
    if not tls or scheme == "wss":  # which is wrapped before the first word
        return Client()
    if scheme == "ws":
        raise NotWrapped(f"{url} goes without TLS, though KVBERTH_NATS_TLS_CA asks for it; a wss:// URL would have it")
    return WrappedClient()
