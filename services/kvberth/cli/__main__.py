"""Entry point of the `kvberth` command."""

import logging
import sys

import structlog
import typer
from rich.console import Console
from rich.markup import escape

from kvberth import __version__
from kvberth.bare.stack import StackError
from kvberth.bus import BusError
from kvberth.cli import demo, events, nodes, objects, scenario, services, stack, status
from kvberth.cli.errors import CommandError
from kvberth.cli.preflight.command import preflight
from kvberth.service import ServiceError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "kvberth keeps an LLM engine's KV cache berthed beside it: when the engine moves, its cache follows.\n\n"
        "First steps: [bold]kvberth demo[/] shows the whole of it on this machine in a minute. "
        "[bold]kvberth up[/] starts a stack to play with; then, in another terminal, "
        "[bold]kvberth apply -f FILE[/] and [bold]kvberth status -w[/]."
    ),
)
_STACK = "On this machine"
_OBJECTS = "Engines and caches"
_CLUSTER = "On Kubernetes"
app.command(rich_help_panel=_STACK)(demo.demo)
app.command(rich_help_panel=_STACK)(stack.up)
app.command(rich_help_panel=_STACK)(stack.down)
app.add_typer(scenario.app, name="scenario", rich_help_panel=_STACK)
app.command(rich_help_panel=_OBJECTS)(objects.apply)
app.command(rich_help_panel=_OBJECTS)(objects.delete)
app.command(rich_help_panel=_OBJECTS)(objects.scale)
app.add_typer(nodes.app, name="node", rich_help_panel=_OBJECTS)
app.command(rich_help_panel=_OBJECTS)(status.status)
app.command(rich_help_panel=_OBJECTS)(events.events)
app.command(rich_help_panel=_CLUSTER)(preflight)
services.add_services(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"kvberth {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Hold the options before a command."""


def main() -> None:
    """Run the command line; an error is one sentence on standard error and exit status 1."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        app()
    except (CommandError, BusError, ServiceError, StackError) as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(1)


if __name__ == "__main__":
    main()
