"""Whatever somebody puts into the folder of locks, only a regular file with a client's name can hold anybody up."""

import os
from pathlib import Path

import pytest

from kvberth.store import locks
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


def killed(path: Path, *, lingers: bool) -> None:
    """A client that locked its file and was killed."""
    child = os.fork()
    if child == 0:
        ClientLock(path, lingers=lingers)
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)


def test_a_dead_client_whose_device_may_write_still_holds_its_file_for_a_second_more(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(locks.time, "monotonic", lambda: now)
    killed(path, lingers=True)
    assert is_held(path), "found free for the first time"
    now += locks.LINGER_S - 0.1
    assert others_held(tmp_path, NEXT) == [path.name], "as whoever waits for a new store sees it"
    now += 0.2
    assert not is_held(path)
    forget(path)
    killed(path, lingers=True)
    assert is_held(path), "the next client of that name has its own second"


def test_a_dead_client_of_host_memory_holds_nothing(path: Path) -> None:
    killed(path, lingers=False)
    assert not is_held(path)


def test_who_leaves_by_itself_has_waited_for_its_copies_and_lingers_not(path: Path) -> None:
    lock = ClientLock(path, lingers=True)
    assert path.stat().st_size == 1
    lock.close()
    assert not is_held(path)


def test_a_file_that_lingered_once_does_not_when_it_is_locked_anew_without(path: Path) -> None:
    killed(path, lingers=True)
    killed(path, lingers=False)
    assert not is_held(path)
