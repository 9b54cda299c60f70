"""What each service may say and hear on the bus: the least that it works with, made from `channels` and `subjects`.

Describes only. `natsconf` writes it for a NATS server. A key belongs to a service, not to an instance or a node: an
agent may speak for any node, and no service is confined to some rows of a stream that it reads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvberth_schemas import subjects
from kvberth_schemas.channels import Channel, channels
from kvberth_schemas.subjects import EVENTS_STREAM, WANTS_STREAM, Service

ON_KUBERNETES = (Service.POD_WATCHER, Service.NODE_AGENT, Service.PLACEMENT, Service.CLI)
ON_BARE = (Service.SCHEDULER, Service.RUNNER, Service.NODE_AGENT, Service.PLACEMENT, Service.CLI)

_STREAMS = (EVENTS_STREAM, WANTS_STREAM)
_READS: dict[Service, tuple[str, ...]] = {
    Service.POD_WATCHER: (EVENTS_STREAM,),
    Service.SCHEDULER: _STREAMS,
    Service.RUNNER: _STREAMS,
    Service.NODE_AGENT: _STREAMS,
    Service.PLACEMENT: _STREAMS,
    Service.CLI: (EVENTS_STREAM,),
}
"""Streams on which a service opens consumers: what it reads for others, and what it wrote itself in an earlier life."""
_HEARS = (Service.SCHEDULER, Service.RUNNER, Service.PLACEMENT, Service.CLI)
"""Who listens to the signs of life."""
_JS = "$JS.API"


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects and patterns; everything else is refused."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool
    """Whether it may answer a request at the inbox that the request names."""


def inbox(service: Service) -> str:
    """Give the prefix of a service's inboxes; nobody else may listen there."""
    return f"_INBOX.{service}"


def rights_of(service: Service, present: Sequence[Service]) -> Rights:
    """Give what a service may do beside those that are present with it."""
    there = [channel for channel in channels() if not channel.readers or set(channel.readers) & set(present)]
    return Rights(
        publish=tuple(sorted({*_says(service, there), *_asks_jetstream(service, there), f"{inbox(service)}.>"})),
        subscribe=tuple(sorted({*_listens(service, there), f"{inbox(service)}.>"})),
        answers=any(service in channel.readers for channel in there if channel.kind == "request"),
    )


def _says(service: Service, there: Sequence[Channel]) -> Iterator[str]:
    for channel in there:
        if service in channel.writers:
            own = channel.address.replace("{service}", str(service))  # signs of life under its own name only
            yield ".".join("*" if part.startswith("{") else part for part in own.split("."))


def _listens(service: Service, there: Sequence[Channel]) -> Iterator[str]:
    for channel in there:
        if channel.kind == "request" and service in channel.readers:
            yield channel.address
    if service in _HEARS:
        yield subjects.ALIVE_PATTERN


def _asks_jetstream(service: Service, there: Sequence[Channel]) -> Iterator[str]:
    for stream in _STREAMS:
        if service is Service.PLACEMENT:  # who declares a stream learns by that what it is
            yield f"{_JS}.STREAM.CREATE.{stream}"
            yield f"{_JS}.STREAM.UPDATE.{stream}"
        else:
            yield f"{_JS}.STREAM.INFO.{stream}"
    for stream in _READS[service]:
        yield f"{_JS}.CONSUMER.CREATE.{stream}"
        yield f"{_JS}.CONSUMER.INFO.{stream}.*"
        yield f"{_JS}.CONSUMER.DELETE.{stream}.*"
        yield f"{_JS}.STREAM.MSG.GET.{stream}"
        yield f"$JS.FC.{stream}.>"  # flow control: that what came was taken
    kept = {channel.stream for channel in there if service in channel.writers and channel.kind != "log"}
    for written in kept:
        if written is not None:
            yield f"{_JS}.STREAM.PURGE.{written}"  # one subject of its own: an ended want, or what nobody can read
        if written == WANTS_STREAM:
            yield f"{_JS}.STREAM.MSG.DELETE.{written}"  # a want is deleted before it is overwritten
