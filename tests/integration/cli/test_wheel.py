"""The wheel holds all that `kvberth demo` needs: it runs from an unpacked one, outside of the source tree."""

import asyncio
import os
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


async def output_of(*argv: str, cwd: Path, **env: str) -> str:
    """Run a command that must succeed; give what it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, env={**os.environ, **env}, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(90):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()  # the demo then ends what it started
            await process.wait()
    assert process.returncode == 0, out.decode()
    return out.decode()


@pytest.mark.timeout(180)
async def test_the_demo_runs_from_the_wheel(tmp_path: Path) -> None:
    await output_of(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    env = {"PYTHONPATH": str(unpacked)}
    where = "from kvberth.cli.demo import MANIFEST, example; print(example(MANIFEST))"
    example = await output_of(sys.executable, "-c", where, cwd=tmp_path, **env)
    assert example.startswith(str(unpacked)), "not the wheel's own example"
    told = await output_of(sys.executable, "-m", "kvberth.cli", "demo", cwd=tmp_path, **env)
    assert "The cache followed the engine from l20-a to l20-b; no engine restarted." in told
    assert told.endswith("No process, socket or directory is left behind.\n")
