"""Asks the scheduler, and prints its answers in words: one line per object, in the manner of kubectl."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from kvberth.bus import Bus, BusError, BusTimeout
from kvberth.cli.connection import connected, layout_of
from kvberth.cli.console import output
from kvberth.cli.errors import CommandError
from kvberth_schemas.model import Message
from kvberth_schemas.requests import ApplyRequest, Outcome, Reply, Result
from kvberth_schemas.subjects import Verb

ANSWER_WITHIN_S = 2.0

_COLOURS = {
    Outcome.ACCEPTED: "green",
    Outcome.IGNORED: "dim",
    Outcome.HELD_BACK: "yellow",
    Outcome.REFUSED: "bold red",
}


async def ask(bus: Bus, verb: Verb, request: Message) -> Reply:
    """Ask the scheduler.

    Raises:
        CommandError: it does not answer.
    """
    try:
        extra_s = request.extra_s if isinstance(request, ApplyRequest) else 0.0
        reply: Reply = await bus.request(verb, request, Reply, ANSWER_WITHIN_S + extra_s)
    except BusTimeout as error:
        hint = "it may still do it, so look at 'kvberth status' before you ask again"
        raise CommandError(f"the scheduler did not answer '{verb}': {error}; {hint}") from error
    except BusError as error:
        raise CommandError(f"the scheduler did not answer '{verb}': {error}") from error
    return reply


async def ask_all(state: Path | None, requests: list[tuple[Verb, Message]]) -> bool:
    """Ask one after the other and print the answers; False when anything was refused.

    Raises:
        CommandError: nothing runs there, or the scheduler does not answer.
    """
    refused = False
    async with connected(layout_of(state)) as bus:
        for verb, request in requests:
            reply = await ask(bus, verb, request)
            print_reply(request, reply)
            refused = refused or reply.refused
    return not refused


def print_reply(request: Message, reply: Reply, console: Console | None = None) -> None:
    """Print the answer to a request; of a file of several objects that was held back, say so."""
    console = console or output()
    source = request.source if isinstance(request, ApplyRequest) else ""
    for result in reply.results:
        _print(result, source, console)
    several = len({(result.kind, result.namespace, result.name) for result in reply.results}) > 1
    if isinstance(request, ApplyRequest) and request.all_or_nothing and reply.refused and several:
        console.print(f"nothing of {source} is applied; correct what is refused and apply it again", markup=False)


def _print(result: Result, source: str, console: Console) -> None:
    console.print(f"{escape(_what(result, source))}: [{_COLOURS[result.outcome]}]{result.outcome}[/]", end="")
    field = None if result.field and result.sentence.startswith(result.field) else result.field
    detail = ": ".join(part for part in (field, result.sentence) if part)
    console.print(f": {detail}" if detail else "", markup=False)
    for warning in result.warnings:
        console.print(f"  [yellow]warning:[/] {escape(warning)}")


def _what(result: Result, source: str) -> str:
    """Name the object, or the text where it has no name."""
    if not result.name or result.name == source:
        return f"{source} ({result.kind} without a name)" if result.kind and source else source or result.kind
    where = f" in {result.namespace}" if result.namespace else ""
    return f"{result.kind}/{result.name}{where}" if result.kind else f"{result.name}{where}"
