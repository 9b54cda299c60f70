"""The `kvberth` application: its options before a command, and how errors are told. Imports no command's module."""

import sys

import typer

from kvberth import __version__
from kvberth.cli.commands import MARKUP, Commands, list_commands
from kvberth.cli.errors import CommandError
from kvberth.cli.services import add_services

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    help=(
        "kvberth keeps an LLM engine's KV cache berthed beside it: when the engine moves, its cache follows.\n\n"
        "First steps: [bold]kvberth demo[/] shows the whole of it on this machine in a minute. "
        "[bold]kvberth up[/] starts a stack to play with; then, in another terminal, "
        "[bold]kvberth apply -f FILE[/] and [bold]kvberth status -w[/]."
    ),
)
list_commands(app)
add_services(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"kvberth {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Hold the options before a command."""


def run() -> None:
    """Run the command line; an error is one sentence on standard error and exit status 1."""
    try:
        app()
    except Exception as error:
        if not _is_told(error):
            raise
        from rich.console import Console
        from rich.markup import escape

        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(1)


def _is_told(error: Exception) -> bool:
    """Whether an error is a sentence for the person at the terminal."""
    if isinstance(error, CommandError):
        return True
    from kvberth.bare.stack import StackError
    from kvberth.bus import BusError
    from kvberth.service import ServiceError

    return isinstance(error, BusError | ServiceError | StackError)
