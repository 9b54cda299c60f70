"""One command per service, for containers and for running one by hand; each is configured by KVBERTH_* variables."""

import runpy
from collections.abc import Callable

import typer

SERVICES = {
    "placement": ("kvberth.placement", "Decides where caches are (KVBERTH_NATS_URL, KVBERTH_STATE)."),
    "node-agent": ("kvberth.node_agent", "Watches the sockets of one node (KVBERTH_NODE)."),
    "pod-watcher": (
        "kvberth.pod_watcher",
        "Says on the bus what a cluster holds (KVBERTH_KUBECONFIG).",
    ),
    "scheduler": ("kvberth.bare.scheduler", "Bare backend: takes manifests and binds engines to nodes."),
    "runner": ("kvberth.bare.runner", "Bare backend: runs the processes of one node (KVBERTH_NODE)."),
}


def add_services(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for name, (module, sentence) in SERVICES.items():
        app.command(name, help=sentence, rich_help_panel="Services")(_runner(module))


def _runner(module: str) -> Callable[[], None]:
    def command() -> None:
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return command
