"""`kvberth apply`, `delete` and `scale`: requests to the scheduler, and its answers in words."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kvberth.bus import Bus, BusError
from kvberth.cli.connection import connected, layout_of, run
from kvberth.cli.errors import CommandError
from kvberth.cli.options import Namespace, State
from kvberth_schemas.model import Message
from kvberth_schemas.requests import ApplyRequest, ObjectRequest, Outcome, Reply, Result, ScaleRequest
from kvberth_schemas.subjects import Verb

_KINDS = {
    "deployment": "Deployment",
    "deploy": "Deployment",
    "statefulset": "StatefulSet",
    "sts": "StatefulSet",
    "kvcache": "KVCache",
    "pod": "Pod",
}
_COLOURS = {Outcome.ACCEPTED: "green", Outcome.IGNORED: "dim", Outcome.REFUSED: "bold red"}


def apply(
    file: Annotated[list[Path], typer.Option("-f", "--file", help="A manifest; '-' reads standard input.")],
    namespace: Namespace = "default",
    state: State = None,
) -> None:
    """Apply manifests: Deployments and StatefulSets of engines, and KVCaches. Other kinds are listed as ignored."""
    requests = [ApplyRequest(text=read_manifest(path), source=str(path), namespace=namespace) for path in file]
    _ask(state, [(Verb.APPLY, request) for request in requests])


def delete(
    kind: Annotated[str | None, typer.Argument(help="deployment, statefulset, kvcache or pod")] = None,
    name: Annotated[str | None, typer.Argument(help="Its name.")] = None,
    file: Annotated[list[Path] | None, typer.Option("-f", "--file", help="Delete what a manifest holds.")] = None,
    namespace: Namespace = "default",
    state: State = None,
) -> None:
    """Delete an object. A deleted engine pod is replaced by its Deployment; a deleted KVCache's caches end."""
    if file:
        targets = [target for path in file for target in _targets(path, namespace)]
    elif kind and name:
        targets = [ObjectRequest(kind=known_kind(kind), namespace=namespace, name=name)]
    else:
        raise CommandError("say what to delete: 'kvberth delete KIND NAME' or 'kvberth delete -f FILE'")
    _ask(state, [(Verb.DELETE, target) for target in targets])


def scale(
    kind: Annotated[str, typer.Argument(help="deployment or statefulset")],
    name: Annotated[str, typer.Argument(help="Its name.")],
    replicas: Annotated[int, typer.Option("--replicas", min=0, max=1000, help="How many engines it wants.")],
    namespace: Namespace = "default",
    state: State = None,
) -> None:
    """Set how many engines a Deployment or StatefulSet wants."""
    if known_kind(kind) not in {"Deployment", "StatefulSet"}:
        raise CommandError(f"a {kind} can't be scaled; scale a deployment or statefulset, and its caches follow")
    request = ScaleRequest(kind=known_kind(kind), namespace=namespace, name=name, replicas=replicas)
    _ask(state, [(Verb.SCALE, request)])


def known_kind(text: str) -> str:
    """Give the kind that a person means.

    Raises:
        CommandError: there is no such kind here.
    """
    kind = _KINDS.get(text.lower()) or _KINDS.get(text.lower().removesuffix("s"))
    if kind is None:
        raise CommandError(f"'{text}' is no kind that kvberth knows; it knows deployment, statefulset, kvcache and pod")
    return kind


def print_results(results: tuple[Result, ...], console: Console | None = None) -> None:
    """Print one line per object, in the manner of kubectl, with the field and the sentence where there is one."""
    console = console or Console(highlight=False, soft_wrap=True)
    for result in results:
        where = f" in {result.namespace}" if result.namespace else ""
        line = f"{result.kind}/{result.name}{where}: [{_COLOURS[result.outcome]}]{result.outcome}[/]"
        console.print(line, end="")
        field = None if result.field and result.sentence.startswith(result.field) else result.field
        detail = ": ".join(part for part in (field, result.sentence) if part)
        console.print(f": {detail}" if detail else "", markup=False)


async def ask(bus: Bus, verb: Verb, request: Message) -> Reply:
    """Ask the scheduler.

    Raises:
        CommandError: it does not answer.
    """
    try:
        reply: Reply = await bus.request(verb, request, Reply)
    except BusError as error:
        raise CommandError(f"the scheduler did not answer '{verb}': {error}") from error
    return reply


def _ask(state: Path | None, requests: list[tuple[Verb, Any]]) -> None:
    async def command() -> bool:
        refused = False
        async with connected(layout_of(state)) as bus:
            for verb, request in requests:
                reply = await ask(bus, verb, request)
                print_results(reply.results)
                refused = refused or reply.refused
        return refused

    if run(command()):
        raise typer.Exit(1)


def read_manifest(path: Path) -> str:
    """Read a manifest file, or standard input for `-`.

    Raises:
        CommandError: it can't be read.
    """
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} can't be read: {error}") from error


def _targets(path: Path, namespace: str) -> list[ObjectRequest]:
    from kvberth_schemas.manifests import load_documents

    return [
        ObjectRequest(kind=document.kind, namespace=document.namespace or namespace, name=document.name)
        for document in load_documents(read_manifest(path), str(path))
        if document.kind in _KINDS.values()
    ]
