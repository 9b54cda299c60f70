"""The example does what it says, as a user runs it."""

import asyncio
import sys
from pathlib import Path

import pytest

from support.transfer_worker import TESTS, running_worker
from support.vineyardd import RunningVineyardd

pytestmark = pytest.mark.integration


async def output_of(example: str, directory: Path, **settings: str) -> list[str]:
    """What an example prints beside a worker; it must end well."""
    async with running_worker(directory, **settings):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", str(TESTS.parent / "examples" / example), str(directory)),
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().splitlines()


async def test_the_example_has_its_blocks_back(daemon: RunningVineyardd, directory: Path) -> None:
    stored = f"offloaded: {', '.join(['stored'] * 12)}"
    assert await output_of("offload.py", directory) == [stored, "loaded: 12 of 12 blocks, the same bytes"]


async def test_the_example_of_two_ranks_has_its_blocks_back(daemon: RunningVineyardd, directory: Path) -> None:
    stored = f"offloaded: {', '.join(['stored'] * 12)}"
    loaded = [f"rank {shard}: 12 of 12 blocks, the same bytes" for shard in (0, 1)]
    assert await output_of("shards.py", directory, KVBERTH_SHARD_WAIT_S="30") == [stored, stored, *loaded]
