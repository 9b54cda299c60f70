"""The lock of a directory: one holder, named to whoever comes second, and free however he ended."""

import os
import subprocess
import sys

import pytest

from kvberth.service.lock import DirectoryLock, HeldError, take

HOLDER = """
import sys, time
from pathlib import Path
from kvberth.service.lock import DirectoryLock, take
lock = take(DirectoryLock(Path(sys.argv[1]), "holder", "end it"))
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def lock(tmp_path):
    return DirectoryLock(tmp_path / "state" / "lock", "holder", "end it, or go elsewhere")


def test_whoever_comes_second_is_told_who_works_where_and_what_to_do(lock):
    sentence = f"Another holder (pid {os.getpid()}) works with {lock.path.parent}; end it, or go elsewhere."
    with take(lock), pytest.raises(HeldError) as refused:
        take(lock)
    assert str(refused.value) == sentence


def test_a_closed_lock_can_be_taken_again_and_names_its_new_holder_alone(lock):
    lock.path.parent.mkdir()
    lock.path.write_text("123456789012\n")  # a longer pid than any
    with take(lock):
        assert lock.path.read_text() == f"{os.getpid()}\n"
    take(lock).close()


def test_a_holder_that_is_killed_leaves_the_lock_free(lock):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(lock.path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(HeldError, match=rf"\(pid {holder.pid}\)"):
            take(lock)
        holder.kill()
    take(lock).close()


def test_a_file_without_a_pid_names_nobody(lock):
    with take(lock):
        lock.path.write_text("")
        with pytest.raises(HeldError, match=r"^Another holder works with"):
            take(lock)


def test_a_directory_that_cannot_be_made_is_the_callers_to_word(lock):
    lock.path.parent.write_text("a file")
    with pytest.raises(OSError, match="File exists"):
        take(lock)
