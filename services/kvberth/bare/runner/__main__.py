"""Starts the runner of one node: `python -m kvberth.bare.runner`."""

from kvberth.bare.runner.service import main
from kvberth.bare.runner.settings import RunnerSettings
from kvberth.service import serve

if __name__ == "__main__":
    serve("runner", RunnerSettings, main)
