"""Whatever somebody puts into the folder of locks, only a regular file with a client's name can hold anybody up."""

import os
from pathlib import Path

import pytest

from kvberth.store.control import CLIENTS_NAME
from kvberth.store.errors import StoreError
from kvberth.store.locks import ClientLock, forget, is_held, lock_path, others_held

EPOCH, NEXT, CLIENT = b"e" * 16, b"n" * 16, b"c" * 16


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / CLIENTS_NAME).mkdir()
    return lock_path(tmp_path, EPOCH, CLIENT)


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_what_is_no_file_holds_nothing_and_blocks_nobody(path: Path, tmp_path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
        (path / "inside").touch()
    else:
        path.symlink_to(tmp_path)
    assert not is_held(path)
    with pytest.raises(StoreError):
        ClientLock(path)
    assert others_held(tmp_path, NEXT) == []
    forget(path)
    assert path.is_dir() == (kind == "directory")


def test_a_name_that_is_no_clients_is_passed_over_and_stays(path: Path, tmp_path: Path) -> None:
    other = path.with_name(path.name + "0")
    other.touch()
    lock = ClientLock(path)
    assert others_held(tmp_path, NEXT) == [path.name]
    lock.close()
    assert others_held(tmp_path, NEXT) == []
    assert other.exists()
    assert not path.exists()


def test_a_forked_child_keeps_no_lock_whoever_holds_it(path: Path) -> None:
    lock = ClientLock(path)
    (lives, ends), (hears, says) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.write(says, b"x")
        os.read(lives, 1)
        os._exit(0)
    try:
        assert os.read(hears, 1)
        assert is_held(path)
        lock.close()
        assert not is_held(path)
    finally:
        os.close(ends)
        os.waitpid(child, 0)
        for end in (lives, hears, says):
            os.close(end)
