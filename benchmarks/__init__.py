"""Measurements of what the design promises. Each is run as a module: `python -m benchmarks.plan`."""
