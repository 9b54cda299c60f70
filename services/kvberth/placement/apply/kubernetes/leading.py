"""Leads for as long as the Lease is held, and only once the API server's fence is known to work.

A term is one life of everything that placement knows: whoever lost it ends, and begins anew as a candidate.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from kvberth.kube import (
    FENCE,
    AlreadyExists,
    Applier,
    Client,
    ClientSettings,
    Election,
    Forbidden,
    KubeError,
    Leadership,
    LeaseSettings,
    Metrics,
    Target,
)
from kvberth.kube.resources import SERVICES
from kvberth.kvcache import KVCACHE_LABEL
from kvberth.placement.apply.kubernetes.writing import Cluster

USER_AGENT: Final = "kvberth-placement"
"""Names our requests in the API server's own records."""
_PROBE_S = 0.25
_PROBE = "kvberth-fence-probe"

_log = structlog.stdlib.get_logger(__name__)

Work = Callable[[Cluster], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadSettings:
    """Where the cluster is, and what is held there."""

    kubeconfig: Path | None
    lease: LeaseSettings
    fenced: bool
    """Whether to begin only when the API server refuses what carries a wrong term."""


class Leader:
    """A candidate for placement's Lease."""

    def __init__(self, settings: LeadSettings, metrics: Metrics) -> None:
        """Nothing is asked before `run()`."""
        self._settings, self._metrics = settings, metrics
        self.over = asyncio.Event()
        """Set when a term of ours has ended."""
        self.trouble = ""
        """Why a leader does not begin; empty when it did, and while another leads."""

    async def run(self, work: Work) -> None:
        """Wait for the Lease and work under it. Whoever runs this cancels it when the term is `over`.

        Raises:
            KubeError: there is no way to an API server, or lost work did not end.
        """
        client_settings = ClientSettings(kubeconfig=self._settings.kubeconfig, user_agent=USER_AGENT)
        async with Client(client_settings) as client:
            election = Election(client, self._settings.lease, metrics=self._metrics)

            async def lead(leadership: Leadership) -> None:
                cluster = Cluster(client, Applier(client), leadership)
                try:
                    if self._settings.fenced:
                        await self._until_fenced(cluster)
                    await work(cluster)
                finally:
                    self.trouble = ""
                    self.over.set()

            await election.run(lead)

    async def _until_fenced(self, cluster: Cluster) -> None:
        told = ""
        while (trouble := await fence_trouble(cluster, self._settings.lease.namespace)) is not None:
            self.trouble = trouble
            if trouble != told:
                _log.info("nothing is placed before the fence works", why=trouble)
            told = trouble
            await asyncio.sleep(_PROBE_S)
        self.trouble = ""


async def fence_trouble(cluster: Cluster, namespace: str) -> str | None:
    """Ask the API server, without writing, whether it refuses a wrong term and accepts ours; say what is missing."""
    term = cluster.leadership.term
    try:
        refused = await _refused(cluster, namespace, term - 1)
        if refused is None:
            return "the fence policy does not refuse a wrong term yet; it comes with the install (fence.yaml)"
        refused = await _refused(cluster, namespace, term)
    except KubeError as error:
        return str(error)
    return refused


async def _refused(cluster: Cluster, namespace: str, term: int) -> str | None:
    """Why a Service with this term would be refused; None where it would not. Written straight: this is the probe."""
    body = {
        "metadata": {"labels": {KVCACHE_LABEL: _PROBE}, "annotations": {FENCE: str(term)}},
        "spec": {"ports": [{"port": 9600}]},
    }
    try:
        await cluster.applier.create(Target(SERVICES, namespace, _PROBE), body, dry_run=True)
    except Forbidden as error:
        return str(error)
    except AlreadyExists:
        return None
    return None
