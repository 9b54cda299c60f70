"""`kvberth preflight`: asks, judges and prints. Exit status 0, 1 (refused) or 2 (can't be told)."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from kvberth import __version__
from kvberth.cli.console import output
from kvberth.cli.preflight.findings import EXIT_UNKNOWN, Finding, Level, exit_status

if TYPE_CHECKING:
    from kvberth.kube import ClientSettings

_WITHIN_S = 60.0
_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.REFUSED: "bold red", Level.UNKNOWN: "magenta"}
_VERDICTS = {0: "ok", 1: "refused", EXIT_UNKNOWN: "unknown"}


def preflight(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", help="The cluster; the default is kubectl's.", metavar="FILE", exists=True, dir_okay=False
        ),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="The context of the kubeconfig.")] = None,
    ha: Annotated[bool, typer.Option("--ha", help="For k8s/overlays/ha: three NATS servers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Ask a Kubernetes cluster, before anything is installed, whether it can take kvberth. Changes nothing.

    Exit status: 0 when nothing stands against it (read the warnings), 1 when something does, 2 when it can't be told.
    """
    try:
        from kvberth.kube import ClientSettings
    except ImportError as error:
        sentence = f"this installation can't reach clusters ({error}); install kvberth[kubernetes]"
        Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(sentence)
        raise typer.Exit(EXIT_UNKNOWN) from error
    findings = asyncio.run(_findings(ClientSettings(kubeconfig=kubeconfig, context=context), ha=ha))
    if as_json:
        print(json.dumps(document(findings)))
    else:
        show(findings, output())
    if status := exit_status(findings):
        raise typer.Exit(status)


async def _findings(settings: "ClientSettings", *, ha: bool) -> list[Finding]:
    from kvberth.cli.preflight.gather import gather
    from kvberth.cli.preflight.judge import judge, unreachable
    from kvberth.kube import Client, KubeError

    try:
        async with asyncio.timeout(_WITHIN_S), Client(settings) as client:
            return judge(await gather(client, ha=ha), __version__)
    except KubeError as error:
        return unreachable(str(error))
    except TimeoutError:
        return unreachable(f"the API server did not answer all questions within {_WITHIN_S:g} s")


def document(findings: Sequence[Finding]) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "kvberth": __version__,
        "verdict": _VERDICTS[exit_status(findings)],
        "findings": [asdict(finding) for finding in findings],
    }


def show(findings: Sequence[Finding], console: Console) -> None:
    """Print a line per check, each remedy below its own, and the verdict."""
    for finding in findings:
        colour, level = _COLOURS[finding.level], f"{finding.level:<7}"
        console.print(f"[{colour}]{level}[/]  {finding.check}: {escape(finding.sentence)}")
        if finding.remedy:
            console.print(f"         -> {escape(finding.remedy)}")
    console.print(f"\n{_conclusion(findings)}")


def _conclusion(findings: Sequence[Finding]) -> str:
    held = {level: sum(finding.level is level for finding in findings) for level in Level}
    if held[Level.REFUSED]:
        return f"kvberth {__version__} must not be installed here: {_count(held[Level.REFUSED], 'check')} refused"
    if held[Level.UNKNOWN]:
        unanswered = f"{_count(held[Level.UNKNOWN], 'check')} unanswered"
        return f"whether kvberth {__version__} can be installed can't be told: {unanswered}"
    warned = f", with {_count(held[Level.WARNING], 'warning')}" if held[Level.WARNING] else ""
    return f"kvberth {__version__} can be installed{warned}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
