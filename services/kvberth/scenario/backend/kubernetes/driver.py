"""The user's command that handles the machines of a cluster, called as ``COMMAND VERB NODE``."""

import asyncio
import shlex
from typing import Literal

from kvberth.scenario.backend.protocol import ScenarioError

DONE_WITHIN_S = 45.0
_SAID = 400

Verb = Literal["kill", "start", "stop", "pause", "resume", "cut", "heal"]


class NodeDriver:
    """Runs the command; without one, every call is refused in a sentence."""

    def __init__(self, command: str | None) -> None:
        self.command = shlex.split(command) if command else []

    async def __call__(self, verb: Verb, node: str) -> None:
        """Do something to a machine.

        Raises:
            ScenarioError: there is no command, it fails, or it takes too long.
        """
        if not self.command:
            raise ScenarioError(f"'{verb}' of the node {node} needs a command that handles nodes (--node-driver)")
        try:
            process = await asyncio.create_subprocess_exec(
                *(*self.command, verb, node),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            raise ScenarioError(f"the node driver can't be run: {error}") from error
        try:
            async with asyncio.timeout(DONE_WITHIN_S):
                said, _ = await process.communicate()
        except TimeoutError as error:
            raise ScenarioError(f"the node driver took more than {DONE_WITHIN_S:g} s to {verb} {node}") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            told = said.decode(errors="replace").strip()[-_SAID:]
            raise ScenarioError(f"the node driver could not {verb} {node}, it ended with {process.returncode}: {told}")
