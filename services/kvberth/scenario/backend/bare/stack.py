"""The `kvberth up` of a scenario: started with an environment of its own, ended with all that it left.

Only the command line is used, as a user would, and the layout of the state directory that it documents.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kvberth.bare.stack.layout import Address, Layout
from kvberth.scenario.backend.asked import printed
from kvberth.scenario.backend.bare import kernel
from kvberth.scenario.backend.protocol import ScenarioError

START_WITHIN_S = 60.0
END_WITHIN_S = 60.0
_POLL_S = 0.02


class BareStack:
    """One stack with a state directory of its own."""

    def __init__(self, nodes_text: str, env: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kvb-scenario-"))
        self.layout = Layout.of(self.folder / "state")
        self.known = kernel.Stack(str(self.layout.state), self.layout.root)
        self.nodes_file = self.folder / "nodes.yaml"
        self.nodes_file.write_text(nodes_text)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KVBERTH_")}
        self.env = {**clean, **env, kernel.MARK: self.known.mark}
        self.output = self.folder / "up.log"
        self.up: asyncio.subprocess.Process | None = None
        self.url = ""

    async def start(self) -> str:
        """Start `up`; give the URL of its bus once it says it.

        Raises:
            ScenarioError: it ends, or says nothing.
        """
        self.up = up = await self.command("up", "--nodes", str(self.nodes_file))
        deadline = asyncio.get_running_loop().time() + START_WITHIN_S
        while True:
            address = Address.read(self.layout)
            if address is not None and address.pid == up.pid:
                self.url = address.nats_url
                return self.url
            if up.returncode is not None:
                raise ScenarioError(f"'kvberth up' ended with {up.returncode}: {self._last_output()}")
            if asyncio.get_running_loop().time() > deadline:
                raise ScenarioError(f"'kvberth up' did not say its address within {START_WITHIN_S:g} s")
            await asyncio.sleep(_POLL_S)

    async def command(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a `kvberth` command for this stack."""
        return await self.module("kvberth.cli", {}, *arguments, "--state", str(self.layout.state))

    async def asked(self, *arguments: str) -> str:
        """Run a `kvberth` command and give all that it prints, or why it printed nothing."""
        return await printed((*arguments, "--state", str(self.layout.state)), self.env)

    async def module(self, module: str, env: Mapping[str, str], *arguments: str) -> asyncio.subprocess.Process:
        """Start a program of kvberth in a session of its own: Ctrl-C at the terminal is not for it."""
        with self.output.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *arguments),
                env={**self.env, **env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def end(self) -> list[str]:
        """End everything as a user would; give what was left behind, which is removed all the same."""
        try:
            left = await self._take_down()
            left += [f"process {one.pid}: {' '.join(one.argv)}" for one in kernel.processes(self.known)]
            left += [f"file {path}" for path in (self.layout.root, self.layout.state) if path.exists()]
            return left
        finally:
            await self._clear_away()

    async def _take_down(self) -> list[str]:
        for one in kernel.processes(self.known):
            if one.state == "T":
                _send(one.pid, signal.SIGCONT)
        if self.up is not None and self.up.returncode is None:
            self.up.send_signal(signal.SIGTERM)
            ending = self.up
        else:
            ending = await self.command("down")
        try:
            async with asyncio.timeout(END_WITHIN_S):
                code = await ending.wait()
        except TimeoutError:
            return [f"the stack did not end within {END_WITHIN_S:g} s"]
        return [f"ending the stack failed with {code}: {self._last_output()}"] if code else []

    async def _clear_away(self) -> None:
        if self.up is not None and self.up.returncode is None:
            self.up.kill()
            await self.up.wait()
        for one in kernel.processes(self.known):
            _send(one.pid, signal.SIGKILL)
        await asyncio.to_thread(shutil.rmtree, self.layout.root, ignore_errors=True)
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    def _last_output(self) -> str:
        try:
            return self.output.read_text(errors="replace").strip()[-500:]
        except OSError:
            return "no output"


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
