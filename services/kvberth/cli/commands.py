"""Which commands there are, and where they live. Loads one when it is run: to import all of them takes a second."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from typer._click.core import Command, Context  # typer exports neither

MARKUP: Final = "rich"
_STACK: Final = "On this machine"
_OBJECTS: Final = "Engines and caches"
_CLUSTER: Final = "On Kubernetes"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as `kvberth --help` lists it."""

    place: str
    """Module and name of its function, or of its application where it has commands of its own."""
    panel: str
    summary: str
    """The first sentence of its own help, which is not loaded for the list."""

    def load(self, name: str) -> TyperCommand | TyperGroup:
        """Import the command."""
        _keep_libraries_quiet()
        module, _, attribute = self.place.partition(":")
        found = getattr(importlib.import_module(f"kvberth.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            return cast("TyperGroup", get_command(found))
        alone = typer.Typer(rich_markup_mode=MARKUP, add_completion=False)
        alone.command(name)(found)
        return cast("TyperCommand", get_command(alone))


ENTRIES: Final = {
    "demo": Entry(
        "demo:demo",
        _STACK,
        "Show the main job on this machine in a minute: an engine moves to another node, and its cache follows.",
    ),
    "up": Entry(
        "stack:up",
        _STACK,
        "Run all of kvberth on this machine, in the foreground. Ctrl-C ends it and everything it started.",
    ),
    "down": Entry(
        "stack:down",
        _STACK,
        "End the running kvberth (or what a killed one left): engines, caches, services, sockets and state directory.",
    ),
    "scenario": Entry(
        "scenario:app", _STACK, "Run scenarios: what is done to a whole stack, and what must then be true."
    ),
    "apply": Entry(
        "objects:apply",
        _OBJECTS,
        "Apply manifests: Deployments and StatefulSets of engines, and KVCaches. Other kinds are listed as ignored.",
    ),
    "delete": Entry(
        "objects:delete",
        _OBJECTS,
        "Delete an object. A deleted engine pod is replaced by its Deployment; a deleted KVCache's caches end.",
    ),
    "scale": Entry(
        "objects:scale", _OBJECTS, "Set how many engines a Deployment or StatefulSet wants; their caches follow."
    ),
    "node": Entry("nodes:app", _OBJECTS, "Cordon, uncordon, drain or delete a node."),
    "status": Entry("status:status", _OBJECTS, "Show every KVCache, engine and node, and what is wrong with it."),
    "events": Entry(
        "events:events",
        _OBJECTS,
        "Follow the events: first the last one of every subject, then what comes. End with Ctrl-C.",
    ),
    "keys": Entry(
        "keys:keys",
        _CLUSTER,
        "Make the keys with which services sign in at NATS: secret seeds, and their public keys for the server.",
    ),
    "preflight": Entry(
        "preflight.command:preflight",
        _CLUSTER,
        "Ask a Kubernetes cluster, before anything is installed, whether it can take kvberth. Changes nothing.",
    ),
}


class Commands(TyperGroup):
    """The commands of `kvberth`; those that are only listed are loaded when they are run."""

    def resolve_command(self, ctx: "Context", args: list[str]) -> "tuple[str | None, Command | None, list[str]]":
        """Find the command that is meant, and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, ENTRIES[name].load(name) if name in ENTRIES else command, rest


def list_commands(app: typer.Typer) -> None:
    """Put the entries into an application of `Commands`."""
    for name, entry in ENTRIES.items():
        app.command(name, help=entry.summary, rich_help_panel=entry.panel)(_listed)


def _listed() -> None:
    """Stand in the list for a command that is loaded before it is run."""


def _keep_libraries_quiet() -> None:
    """Let a command's own sentences speak, not the log of what it uses."""
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
