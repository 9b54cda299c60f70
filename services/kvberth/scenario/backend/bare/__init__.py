"""Scenarios on the bare backend: a `kvberth up` of their own with real processes, looked at through the kernel."""

from kvberth.scenario.backend.bare.world import BareBackend

__all__ = ("BareBackend",)
