"""Reads what is there now: one object, or all that a selection names, page by page."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kvberth.kube.client import Call, Client
from kvberth.kube.errors import NotFound, Unreachable
from kvberth.kube.kinds import Kind, Malformed
from kvberth.kube.objects import Entry, Unreadable
from kvberth.kube.resources import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind; selectors as kubectl takes them."""

    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    def call(self, verb: str, resource: Resource, query: tuple[tuple[str, str], ...]) -> Call:
        """The request for the collection."""
        pairs = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        chosen = tuple(pair for pair in pairs if pair[1])
        return Call(what=f"{verb} of {resource.kind}", path=resource.path(self.namespace), query=(*chosen, *query))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """How a list is read: objects per page and seconds per page."""

    size: int = 500
    page_s: float = 30.0


async def get(
    client: Client, kind: Kind[T], namespace: str | None, name: str, timeout_s: float | None = None
) -> Entry[T] | Unreadable | None:
    """Read one object as it is now; None where there is none.

    Raises:
        Refused, Unreachable: as `Client.request`.
    """
    resource = kind.resource
    call = Call(what=f"GET {resource.title(namespace, name)}", path=resource.path(namespace, name))
    try:
        body = await client.request(call, timeout_s)
    except NotFound:
        return None
    try:
        return kind.read_bytes(body)
    except Malformed as error:
        raise Unreachable(f"{call.what} was answered with what {error}") from error


async def list_all(
    client: Client,
    kind: Kind[T],
    selection: Selection,
    paging: Paging | None = None,
    heard: Callable[[], None] = lambda: None,
) -> tuple[str, list[Entry[T] | Unreadable]]:
    """Read all pages: the version from which a watch goes on, and the objects. `heard` is called after each page.

    Raises:
        Expired: the continue token got too old; begin again.
        Refused, Unreachable: as `Client.request`.
    """
    paging = paging or Paging()
    first, items, more = "", list[Entry[T] | Unreadable](), ""
    while True:
        query = (("limit", str(paging.size)), *((("continue", more),) if more else ()))
        call = selection.call("list", kind.resource, query)
        body = await client.request(call, paging.page_s)
        try:
            page = kind.read_page(body)
        except Malformed as error:
            raise Unreachable(f"{call.what} was answered with what {error}") from error
        heard()
        # The first page's version: what changed while the others were read is told again by the watch.
        first = first or page.resource_version
        items += page.items
        more = page.more
        if not more:
            return first, items
