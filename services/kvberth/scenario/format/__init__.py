"""The format of a scenario file: what may be written, and the sentence for what may not. No I/O but `load`."""

from kvberth.scenario.format.expectations import Expectation
from kvberth.scenario.format.load import FormatError, load, parse
from kvberth.scenario.format.scenario import Scenario
from kvberth.scenario.format.steps import Step
from kvberth.scenario.format.targets import CacheTarget, EngineTarget, ServiceTarget, Target

__all__ = (
    "CacheTarget",
    "EngineTarget",
    "Expectation",
    "FormatError",
    "Scenario",
    "ServiceTarget",
    "Step",
    "Target",
    "load",
    "parse",
)
