"""A real service process per test, ended with it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

SAMPLE = Path(__file__).with_name("sample_service.py")


@dataclass
class Sample:
    """A running sample service."""

    process: subprocess.Popen
    state: Path
    stderr: Path

    @property
    def address_file(self):
        return self.state / "services" / "sample-l20-a.json"

    def lines(self):
        """What it logged; lines that are no JSON under `text`."""
        return [
            json.loads(line) if line.startswith("{") else {"text": line}
            for line in self.stderr.read_text().splitlines()
        ]

    def events(self):
        return [line.get("event") for line in self.lines()]

    def wait_until(self, condition, seconds=15.0):
        """Wait for a condition; fail after `seconds` with what it logged."""
        ends = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < ends, f"nothing happened in time; it logged {self.stderr.read_text()}"
            time.sleep(0.01)

    def wait_for_event(self, event):
        """Wait until it has logged this event."""
        self.wait_until(lambda: event in self.events())

    def started(self):
        """Wait until it runs; its address file."""
        self.wait_for_event("service started")
        return json.loads(self.address_file.read_text())

    def stop(self, number=signal.SIGTERM):
        """Send a signal; exit code and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(timeout=20), time.monotonic() - began


@pytest.fixture
def start(tmp_path):
    started = []

    def run(mode, **env):
        index = len(started)
        state = Path(env.get("KVBERTH_STATE", tmp_path / "state"))
        stderr = tmp_path / f"stderr-{index}"
        clean = {name: value for name, value in os.environ.items() if not name.upper().startswith("KVBERTH_")}
        given = {"KVBERTH_STATE": str(state), "KVBERTH_NODE": "l20-a", "KVBERTH_SHUTDOWN_TIMEOUT_S": "0.5"}
        with stderr.open("w") as sink:
            process = subprocess.Popen([sys.executable, str(SAMPLE), mode], env=clean | given | env, stderr=sink)
        started.append(process)
        return Sample(process, state, stderr)

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
