"""The bus: last states, wants, signs of life and requests over NATS. A library; it imports no service."""

from kvberth.bus.bus import Bus
from kvberth.bus.clock import Clock
from kvberth.bus.decode import Row, Subject
from kvberth.bus.errors import BodyTooLong, BusError, BusTimeout, NoResponder, NotOurs
from kvberth.bus.liveness import Heart, Liveness
from kvberth.bus.metrics import Telemetry
from kvberth.bus.reconcile import Absent
from kvberth.bus.settings import BusSettings
from kvberth.bus.streams import Streams
from kvberth.bus.view import View
from kvberth.bus.writer import Writer

__all__ = [
    "Absent",
    "BodyTooLong",
    "Bus",
    "BusError",
    "BusSettings",
    "BusTimeout",
    "Clock",
    "Heart",
    "Liveness",
    "NoResponder",
    "NotOurs",
    "Row",
    "Streams",
    "Subject",
    "Telemetry",
    "View",
    "Writer",
]
