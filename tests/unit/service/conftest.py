"""Fixtures for the skeleton's unit tests: an environment without our variables, telemetry that is shut down."""

import os

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kvberth.service import Telemetry


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch):
    for name in [name for name in os.environ if name.upper().startswith("KVBERTH_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def telemetry(spans):
    made = Telemetry("sample", instance="i-1", span_exporter=spans)
    yield made
    made.shutdown()
