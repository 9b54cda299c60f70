"""What a running service holds: its settings, telemetry, checks, HTTP address and the word to stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kvberth.service.checks import Checks
from kvberth.service.http import HttpServer
from kvberth.service.lag import LagWatchdog
from kvberth.service.probes import probe_routes
from kvberth.service.settings import ServiceSettings
from kvberth.service.telemetry import Telemetry

S = TypeVar("S", bound=ServiceSettings)


@dataclass(frozen=True, kw_only=True)
class ServiceContext(Generic[S]):
    """Handed to a service's `main`, which should end soon after `stopping` is set."""

    service: str
    settings: S
    telemetry: Telemetry
    checks: Checks
    lag: LagWatchdog
    http_address: str
    """`host:port` of `/healthz`, `/readyz` and `/metrics`, as bound."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def open_context(service: str, settings: S, telemetry: Telemetry) -> AsyncIterator[ServiceContext[S]]:
    """Serve probes and watch the loop while the block runs. Raises `ServiceError` when the HTTP address is taken.

    `run_service` uses it; so can a test that runs a service within its own loop.
    """
    checks = Checks()
    lag = LagWatchdog(telemetry, settings.lag_interval_s)
    http = HttpServer(settings.http_host, settings.http_port, probe_routes(checks, telemetry))
    await http.start()
    lag.start()
    try:
        context = ServiceContext(
            service=service,
            settings=settings,
            telemetry=telemetry,
            checks=checks,
            lag=lag,
            http_address=http.address,
        )
        checks.register("stopping", lambda: "The service is stopping." if context.stopping.is_set() else None)
        yield context
    finally:
        lag.stop()
        await http.close()
