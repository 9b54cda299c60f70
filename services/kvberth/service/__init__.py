"""The skeleton of every service: settings, logs, telemetry, probes, and a process that ends when it is told to."""

from kvberth.service.address_file import address_path
from kvberth.service.checks import Checks
from kvberth.service.claim import Claim, claimed
from kvberth.service.context import ServiceContext, open_context
from kvberth.service.errors import ServiceError, SettingsError, TakenOverError
from kvberth.service.lag import LagWatchdog
from kvberth.service.lock import DirectoryLock, HeldError
from kvberth.service.logs import bound_cause, configure_logging
from kvberth.service.run import EXIT_FAILED, EXIT_OK, EXIT_SETTINGS, EXIT_TAKEN_OVER, run_service, serve
from kvberth.service.settings import ServiceSettings, load_settings
from kvberth.service.telemetry import SECONDS_BUCKETS, Telemetry

__all__ = [
    "EXIT_FAILED",
    "EXIT_OK",
    "EXIT_SETTINGS",
    "EXIT_TAKEN_OVER",
    "SECONDS_BUCKETS",
    "Checks",
    "Claim",
    "DirectoryLock",
    "HeldError",
    "LagWatchdog",
    "ServiceContext",
    "ServiceError",
    "ServiceSettings",
    "SettingsError",
    "TakenOverError",
    "Telemetry",
    "address_path",
    "bound_cause",
    "claimed",
    "configure_logging",
    "load_settings",
    "open_context",
    "run_service",
    "serve",
]
