"""The example does what it says, as a user runs it."""

import asyncio
import sys
from pathlib import Path

import pytest

from support.transfer_worker import TESTS, running_worker
from support.vineyardd import RunningVineyardd

pytestmark = pytest.mark.integration


async def test_the_example_has_its_blocks_back(daemon: RunningVineyardd, directory: Path) -> None:
    async with running_worker(directory):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", str(TESTS.parent / "examples/offload.py"), str(directory)),
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
    lines = output.decode().splitlines()
    assert lines == [f"offloaded: {', '.join(['stored'] * 12)}", "loaded: 12 of 12 blocks, the same bytes"]
    assert process.returncode == 0
