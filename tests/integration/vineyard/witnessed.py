"""Asks the official client, in a process of its own."""

import asyncio
import sys
from pathlib import Path

_PROGRAM = Path(__file__).with_name("witness.py")


async def witness(socket: Path, action: str, value: str) -> str:
    """Return what the witness printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(_PROGRAM), str(socket), action, value, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(30):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return out.decode().strip()
