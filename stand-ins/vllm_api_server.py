#!/usr/bin/env python3
"""Takes the place of vLLM's `python3 -m vllm.entrypoints.openai.api_server`: the engine stand-in on its port."""

import argparse
import os
import sys

from kvberth.bare.engine.__main__ import main
from kvberth.bare.engine.settings import HOST_VARIABLE, PORT_VARIABLE

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 -- as vLLM does: probes come from outside the pod
    parser.add_argument("--port", default="8000")
    known, _ = parser.parse_known_args()
    os.environ[HOST_VARIABLE], os.environ[PORT_VARIABLE] = known.host, known.port
    sys.exit(main())
