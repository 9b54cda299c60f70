"""A memory that cannot be used is unmapped and its lock is free again; one that can stays until it is closed."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvberth.client.desk import Desk
from kvberth.client.mapping import Mapping
from kvberth.store.control import CLIENTS_NAME, Welcome
from kvberth.store.errors import StoreError
from kvberth.store.layout.superblock import Checksum, Superblock
from kvberth.store.locks import is_held, lock_path, others_held
from kvberth.store.memory import StoreMemory
from support.store_memory import EPOCH, SMALL

CLIENT = b"c" * 16
BLOBS = [SMALL.index_bytes, *[SMALL.arena_bytes] * SMALL.arenas]
STARTS = [sum(BLOBS[:number]) + 64 for number in range(len(BLOBS))]
WELCOME = Welcome(EPOCH, 1, (STARTS[-1] + BLOBS[-1],), tuple((0, *each) for each in zip(STARTS, BLOBS, strict=True)))


@pytest.fixture
def fd() -> Iterator[int]:
    """A shared memory with a store in it."""
    made = os.memfd_create("kvberth-test")
    os.ftruncate(made, WELCOME.maps[0])
    yield made
    os.close(made)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / CLIENTS_NAME).mkdir()
    return tmp_path


def formatted(fd: int) -> None:
    with mmap.mmap(fd, WELCOME.maps[0]) as mapped:
        whole = memoryview(mapped)
        views = [whole[start : start + size] for start, size in zip(STARTS, BLOBS, strict=True)]
        StoreMemory.format(Superblock(EPOCH, (1, 2), SMALL, Checksum.NONE, 1), views[0], tuple(views[1:]))
        for view in [*views, whole]:
            view.release()


def maps_of_the_test() -> int:
    return Path("/proc/self/maps").read_text().count("kvberth-test")


def test_what_is_no_store_is_unmapped_and_its_lock_is_free(fd: int, directory: Path) -> None:
    for _ in range(2):
        with pytest.raises(StoreError, match="no index"):
            Mapping(directory, CLIENT, WELCOME, [fd])
        assert maps_of_the_test() == 0
        assert not is_held(lock_path(directory, EPOCH, CLIENT))


@pytest.mark.parametrize(
    ("welcome", "fds", "why"),
    [
        (WELCOME, 0, "0 descriptors came for 1"),
        (Welcome(EPOCH, 1, (1 << 40,), WELCOME.blobs), 1, "were announced"),
        (Welcome(EPOCH, 1, WELCOME.maps, ((0, 64, 1 << 40),)), 1, "does not lie in its memory"),
        (Welcome(EPOCH, 1, WELCOME.maps, ((3, 64, 64),)), 1, "does not lie in its memory"),
    ],
)
def test_a_welcome_that_does_not_fit_its_descriptors_is_refused(
    fd: int, directory: Path, welcome: Welcome, fds: int, why: str
) -> None:
    with pytest.raises(StoreError, match=why):
        Mapping(directory, CLIENT, welcome, [fd] * fds)
    assert maps_of_the_test() == 0


def test_a_store_is_mapped_locked_and_warm_until_it_is_closed(fd: int, directory: Path) -> None:
    formatted(fd)
    mapping = Mapping(directory, CLIENT, WELCOME, [fd])
    assert is_held(lock_path(directory, EPOCH, CLIENT))
    assert others_held(directory, b"x" * 16) == [lock_path(directory, EPOCH, CLIENT).name]
    assert others_held(directory, EPOCH) == []
    while mapping.warm():
        pass
    assert mapping.reader.find(bytes(32)) is None
    mapping.close()
    assert maps_of_the_test() == 0
    assert others_held(directory, b"x" * 16) == []
    assert list((directory / CLIENTS_NAME).iterdir()) == []


def test_a_worker_of_another_user_can_try_the_lock_whatever_the_engines_umask(fd: int, directory: Path) -> None:
    formatted(fd)
    before = os.umask(0o077)
    try:
        mapping = Mapping(directory, CLIENT, WELCOME, [fd])
    finally:
        os.umask(before)
    assert lock_path(directory, EPOCH, CLIENT).stat().st_mode & 0o777 == 0o644
    mapping.close()


def test_a_view_that_is_left_keeps_the_lock(fd: int, directory: Path) -> None:
    formatted(fd)
    mapping = Mapping(directory, CLIENT, WELCOME, [fd])
    left = mapping.memory.index[:8]
    with pytest.raises(StoreError, match="a view of the store's memory is left"):
        mapping.close()
    assert is_held(lock_path(directory, EPOCH, CLIENT))
    left.release()
    mapping.close()


def test_a_desk_unmaps_what_was_detached_as_soon_as_no_view_is_left(fd: int, directory: Path) -> None:
    formatted(fd)
    mapping, desk = Mapping(directory, CLIENT, WELCOME, [fd]), Desk()
    desk.attach(mapping)
    left = mapping.memory.index[:8]
    assert "a view of the store's memory is left" in str(desk.detach())
    assert is_held(lock_path(directory, EPOCH, CLIENT))
    left.release()
    assert desk.leave() is None
    assert not is_held(lock_path(directory, EPOCH, CLIENT))
    assert desk.leave() is None


def test_a_directory_that_cannot_be_written_is_said(fd: int, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="can't be written"):
        Mapping(tmp_path / "nowhere", CLIENT, WELCOME, [fd])
