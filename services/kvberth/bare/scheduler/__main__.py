"""Starts the scheduler of the bare backend."""

from kvberth.bare.scheduler.service import main
from kvberth.bare.scheduler.settings import SchedulerSettings
from kvberth.service import serve

if __name__ == "__main__":
    serve("scheduler", SchedulerSettings, main)
