"""How long the gate takes from its start to its first look at the socket: every engine waits at least so long.

A listener stands in the cache's place and notes when it is connected to; it answers nothing, and the gate is ended.
The gate runs as in a pod, isolated and without site packages, by the Python that runs this.
"""

import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.results import Result, append
from kvberth.gate.manifest import PROGRAM

STARTS = 50
TARGET_MS = 100.0
WITHIN_S = 10.0


def main() -> None:
    """Measure, and say the result."""
    with tempfile.TemporaryDirectory(prefix="kvb-gate-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "vineyard.sock"
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(WITHIN_S)
        took = sorted(_start(listener, path) for _ in range(STARTS))
    context = {
        "starts": STARTS,
        "p50": round(statistics.median(took), 1),
        "largest": round(took[-1], 1),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    value = took[round(STARTS * 0.95) - 1]
    result = Result(name="gate_start_ms", value=round(value, 1), unit="ms (p95)", target=TARGET_MS, context=context)
    sys.stdout.write(f"{append(result)}\n")


def _start(listener: socket.socket, path: Path) -> float:
    """The milliseconds from the start of one gate to its connect. Raises TimeoutError where none comes."""
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-IS", str(PROGRAM), str(path)], stdout=subprocess.DEVNULL) as gate:
        try:
            connection, _ = listener.accept()
            took_ms = (time.monotonic() - began) * 1000
            connection.close()
        finally:
            gate.kill()
    return took_ms


if __name__ == "__main__":
    main()
