"""What another process sees of a slot's generation while the worker grants, publishes and frees it: it only grows."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kvberth.store.layout import slots
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.memory import StoreMemory
from support.store_memory import EPOCH, SMALL, small_file

PROGRAM = Path(__file__).with_name("granting.py")
TESTS = Path(__file__).parents[2]
ROUNDS = 5000


def test_the_generation_of_a_slot_only_grows_for_whoever_looks() -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        block = Superblock(EPOCH, tuple(range(SMALL.arenas)), SMALL, Checksum.NONE, 1)
        memory = StoreMemory.format(block, *small_file(file.name))
        words, at, _, _ = memory.place(0)
        generation, last, shrank = at + slots.GENERATION, 0, 0
        env = {**os.environ, "PYTHONPATH": str(TESTS)}
        child = subprocess.Popen([sys.executable, str(PROGRAM), file.name, str(ROUNDS)], env=env)
        try:
            while child.poll() is None:
                for _ in range(10_000):
                    now = words[generation]
                    shrank += now < last
                    last = now
        finally:
            child.kill()
            child.wait()
        assert child.returncode == 0
        assert shrank == 0
        assert words[generation] == 2 * ROUNDS
