"""What every part of one bus shares."""

from dataclasses import dataclass

from kvberth.bus.clock import Clock
from kvberth.bus.metrics import Metrics
from kvberth.bus.settings import BusSettings


@dataclass(frozen=True, slots=True)
class BusContext:
    """Settings, metrics, time and ids."""

    settings: BusSettings
    metrics: Metrics
    clock: Clock
