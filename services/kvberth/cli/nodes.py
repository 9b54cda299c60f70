"""`kvberth node cordon|uncordon|drain|delete`."""

from pathlib import Path
from typing import Annotated

import typer

from kvberth.cli.answers import ask_all
from kvberth.cli.connection import run
from kvberth.cli.options import State
from kvberth_schemas.requests import NodeRequest
from kvberth_schemas.subjects import Verb

app = typer.Typer(no_args_is_help=True, help="Cordon, uncordon, drain or delete a node.")

Node = Annotated[str, typer.Argument(help="The node's name, as 'kvberth status' shows it.")]


@app.command()
def cordon(node: Node, state: State = None) -> None:
    """Let no new engine come to the node; what runs there stays."""
    _ask(Verb.CORDON, node, state)


@app.command()
def uncordon(node: Node, state: State = None) -> None:
    """Let engines come to the node again."""
    _ask(Verb.UNCORDON, node, state)


@app.command()
def drain(node: Node, state: State = None) -> None:
    """Cordon the node and move its engines to others; their caches follow. 'uncordon' ends it."""
    _ask(Verb.DRAIN, node, state)


@app.command()
def delete(node: Node, state: State = None) -> None:
    """Forget a node that will not come back; its engines are bound elsewhere at once."""
    _ask(Verb.DELETE_NODE, node, state)


def _ask(verb: Verb, node: str, state: Path | None) -> None:
    if not run(ask_all(state, [(verb, NodeRequest(node=node))])):
        raise typer.Exit(1)
