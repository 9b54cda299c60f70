"""`kvberth scenario run`: stories that run against a whole stack."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import typer
from rich.console import Console

from kvberth.cli.signals import on_signals, until_signal
from kvberth.scenario import objects_named
from kvberth.scenario.backend.bare import BareBackend
from kvberth.scenario.backend.protocol import Backend
from kvberth.scenario.format import FormatError, Scenario, load
from kvberth.scenario.result import Outcome, document, failed, summary
from kvberth.scenario.run import RunOptions, run_all
from kvberth.scenario.skips import skipped

app = typer.Typer(
    no_args_is_help=True, help="Run scenarios: what is done to a whole stack, and what must then be true."
)

_INTERRUPTED = 130
_CANNOT_RUN = 2


@app.command()
def run(
    files: Annotated[list[Path], typer.Argument(help="Scenario files (docs/scenarios.md).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
    backend: Annotated[
        str | None,
        typer.Option("--backend", help="'bare': a stack of its own on this machine (the default); 'kubernetes'."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Run on this Kubernetes cluster, where kvberth is installed.")
    ] = None,
    node_driver: Annotated[
        str | None,
        typer.Option(
            "--node-driver",
            help="Command for a cluster's machines: COMMAND kill|start|stop|pause|resume NODE.",
        ),
    ] = None,
    time_factor: Annotated[
        float,
        typer.Option("--time-factor", min=0.001, max=1.0, help="Shortens named waits of a minute or more; printed."),
    ] = 1.0,
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Folder for the logs and events of failed scenarios.")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option("--jobs", min=1, max=64, help="So many at a time; one that fails beside others runs again alone."),
    ] = 1,
) -> None:
    """Run scenarios, each in a stack of its own that leaves nothing behind.

    Exit status: 0 when none failed (skipped ones did not), 1 when one did, 2 when they can't be run at all.
    """
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is for the result
    out = Console(stderr=as_json, highlight=False, soft_wrap=True, markup=False)
    chosen = _backend(backend or ("kubernetes" if kubeconfig or node_driver else "bare"), kubeconfig, node_driver)
    if jobs > 1 and not isinstance(chosen, BareBackend):
        _cannot("--jobs does not go with a cluster: its scenarios share one kvberth, so they run one after the other")
    scenarios = _load(files)
    outcomes: list[Outcome] = []
    if asyncio.run(_run(scenarios, chosen, RunOptions(time_factor, keep, jobs), out, outcomes)):
        raise typer.Exit(_INTERRUPTED)
    out.print(f"\n{summary(outcomes)}")
    if as_json:
        sys.stdout.write(json.dumps(document(outcomes)) + "\n")
    if failed(outcomes):
        raise typer.Exit(1)


@app.command()
def check(files: Annotated[list[Path], typer.Argument(help="Scenario files.")]) -> None:
    """Read scenarios without running them, and print what the bare backend would skip of them."""
    for path, scenario in _load(files):
        for line in skipped(scenario, BareBackend.abilities):
            sys.stdout.write(f"{path.name}: {line}\n")


def _backend(name: str, kubeconfig: Path | None, node_driver: str | None) -> Backend:
    if name == "bare" and kubeconfig is None and node_driver is None:
        return BareBackend()
    if name != "kubernetes":
        _cannot(f"--backend {name} does not go with these options; there are 'bare' and 'kubernetes'")
    try:
        from kvberth.scenario.backend.kubernetes.world import KubernetesBackend
    except ImportError as error:
        _cannot(f"this installation can't reach clusters ({error}); install kvberth[kubernetes]")
    if kubeconfig is not None and not kubeconfig.is_file():
        _cannot(f"there is no kubeconfig {kubeconfig}")
    return KubernetesBackend(kubeconfig, node_driver)


async def _run(  # what it tells stands in `outcomes`, also after Ctrl-C
    scenarios: list[tuple[Path, Scenario]],
    backend: Backend,
    options: RunOptions,
    out: Console,
    outcomes: list[Outcome],
) -> bool:
    signalled = on_signals()

    async def work() -> None:
        outcomes.extend(await run_all(scenarios, backend, options, out.print))

    return await until_signal(signalled, work())


def _load(files: list[Path]) -> list[tuple[Path, Scenario]]:
    """Read them all before any is run: a fault in the last one must not show after minutes."""
    loaded, faults = [], []
    for file in files:
        try:
            scenario = load(file)
            loaded.append((file, scenario))
            faults += [f"{file}: {fault}" for fault in objects_named.faults(scenario, file.parent)]
        except FormatError as error:
            faults.append(str(error))
    if faults:
        _cannot("\n".join(faults))
    return loaded


def _cannot(sentence: str) -> NoReturn:
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(sentence)
    raise typer.Exit(_CANNOT_RUN)
