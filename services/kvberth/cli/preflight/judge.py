"""Decides from the facts whether a cluster can take the install, check by check. Pure.

An unanswered question is `UNKNOWN`, never OK: what stands against an install must not pass for want of a right to look.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from kvberth.cli.preflight.checks import cluster, install
from kvberth.cli.preflight.facts import Answer, Facts, Unasked
from kvberth.cli.preflight.findings import Finding, Level

T = TypeVar("T")

_REMEDY: Final = "ask with an account that may read it; k8s/preflight holds the rights that all checks take"


def judge(facts: Facts, release: str) -> list[Finding]:
    """Say of each check how it went; `release` is the version of kvberth that would be installed."""
    return [
        cluster.api_server(facts.version),
        _known("fence", facts.admission, cluster.fence),
        _known("gate", facts.admission, cluster.gate),
        _known("definition", facts.definition, install.definition),
        _known("aibrix", facts.deployments, cluster.aibrix),
        _known("namespace", facts.namespaces, install.namespace),
        _known("names", facts.present, lambda found: install.names(found, ha=facts.ha)),
        _known("bus", facts.present, lambda found: install.bus(found, ha=facts.ha)),
        _known("installed", facts.present, lambda found: install.installed(found, release)),
        _known("rights", facts.missing, install.rights),
        _known("pod-security", facts.namespaces, lambda found: cluster.pod_security(found, facts.kvcaches)),
        _known("nodes", facts.nodes, cluster.nodes),
    ]


def unreachable(why: str) -> list[Finding]:
    """What is said of a server that answered nothing."""
    remedy = "name the cluster with --kubeconfig and --context, and look whether 'kubectl version' reaches it"
    return [Finding("api-server", Level.UNKNOWN, why, remedy)]


def _known(check: str, answer: Answer[T], decide: Callable[[T], Finding]) -> Finding:
    if isinstance(answer, Unasked):
        return Finding(check, Level.UNKNOWN, answer.why, _REMEDY)
    return decide(answer)
