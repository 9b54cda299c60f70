"""Starts the stand-in: `python -m kvberth.bare.engine`."""

import asyncio
import sys

from kvberth.bare.engine.service import Engine, log
from kvberth.bare.engine.settings import EngineSettings, SettingsError


def main() -> int:
    """Run the engine; the exit code."""
    try:
        return asyncio.run(Engine(EngineSettings.of()).run())
    except (SettingsError, OSError) as error:
        log(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
