"""`kvberth apply`, `delete` and `scale`: what a user wants of the scheduler."""

from pathlib import Path
from typing import Annotated, Any

import typer

from kvberth.cli.answers import ask_all
from kvberth.cli.connection import run
from kvberth.cli.errors import CommandError
from kvberth.cli.manifests import apply_request, delete_requests
from kvberth.cli.options import State
from kvberth_schemas.requests import ObjectRequest, ScaleRequest, known_kind
from kvberth_schemas.subjects import Verb


def apply(
    file: Annotated[
        list[Path],
        typer.Option(
            "-f",
            "--file",
            metavar="FILE",
            help="A manifest of one or several objects; '-' reads standard input. May be given several times.",
        ),
    ],
    namespace: Annotated[
        str,
        typer.Option(
            "-n", "--namespace", help="For objects whose manifest names no namespace; one that it names counts."
        ),
    ] = "default",
    state: State = None,
) -> None:
    """Apply manifests: Deployments and StatefulSets of engines, and KVCaches. Other kinds are listed as ignored.

    A file is applied whole or, where one of its objects is refused, not at all.

    A KVCache serves the engines of its own namespace only.

    Example: kvberth apply -f examples/llama-3-8b-l20/engine-and-kvcache.yaml
    """
    _ask(state, [(Verb.APPLY, apply_request(path, namespace)) for path in file])


def delete(
    kind: Annotated[str | None, typer.Argument(help="deployment, statefulset, kvcache or pod")] = None,
    name: Annotated[str | None, typer.Argument(help="Its name, as 'kvberth status' shows it.")] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("-f", "--file", metavar="FILE", help="Delete what a manifest holds; '-' reads standard input."),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option("-n", "--namespace", help="Where the object is; with -f for objects whose manifest names none."),
    ] = "default",
    state: State = None,
) -> None:
    """Delete an object. A deleted engine pod is replaced by its Deployment; a deleted KVCache's caches end.

    Example: kvberth delete kvcache my-kv
    """
    if file and (kind or name):
        raise CommandError("say what to delete either by KIND NAME or by -f FILE, not by both")
    if file:
        targets = [target for path in file for target in delete_requests(path, namespace)]
    elif kind and name:
        targets = [ObjectRequest(kind=kind_of(kind), namespace=namespace, name=name)]
    else:
        raise CommandError("say what to delete: 'kvberth delete KIND NAME' or 'kvberth delete -f FILE'")
    _ask(state, [(Verb.DELETE, target) for target in targets])


def scale(
    kind: Annotated[str, typer.Argument(help="deployment or statefulset")],
    name: Annotated[str, typer.Argument(help="Its name.")],
    replicas: Annotated[int, typer.Option("--replicas", min=0, max=1000, help="How many engines it wants.")],
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Where the object is.")] = "default",
    state: State = None,
) -> None:
    """Set how many engines a Deployment or StatefulSet wants; their caches follow.

    Example: kvberth scale deployment llama-3-8b-instruct --replicas 2
    """
    if kind_of(kind) not in {"Deployment", "StatefulSet"}:
        raise CommandError(f"a {kind} can't be scaled; scale a deployment or statefulset, and its caches follow")
    request = ScaleRequest(kind=kind_of(kind), namespace=namespace, name=name, replicas=replicas)
    _ask(state, [(Verb.SCALE, request)])


def kind_of(word: str) -> str:
    """Give the kind that a person means.

    Raises:
        CommandError: there is no such kind here.
    """
    kind = known_kind(word)
    if kind is None:
        raise CommandError(f"'{word}' is no kind that kvberth knows; it knows deployment, statefulset, kvcache and pod")
    return kind


def _ask(state: Path | None, requests: list[tuple[Verb, Any]]) -> None:
    if not run(ask_all(state, requests)):
        raise typer.Exit(1)
