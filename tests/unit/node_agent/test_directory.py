"""Directories on a real file system: made, repaired, never removed, emptied without following anything."""

import stat
import threading

import pytest

from kvberth.node_agent.sockets.directory import Directory, Place, empty, prepare
from kvberth.node_agent.sockets.verdict import Failed
from kvberth.store.locks import ClientLock


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_directory_is_made_with_its_mode(tmp_path):
    path = tmp_path / "root" / "default" / "k"
    place = prepare(Directory(path, 0o2770))
    assert isinstance(place, Place)
    assert place.directory == (path.stat().st_dev, path.stat().st_ino)
    assert place.socket is None
    assert mode_of(path) == 0o2770


def test_an_existing_directory_gets_its_mode_and_keeps_its_content(tmp_path):
    (tmp_path / "vineyard.sock").touch()
    tmp_path.chmod(0o500)
    place = prepare(Directory(tmp_path, 0o755))
    assert place.socket == (tmp_path.stat().st_dev, (tmp_path / "vineyard.sock").stat().st_ino)
    assert mode_of(tmp_path) == 0o755


def test_preparing_twice_gives_the_same_place(tmp_path):
    directory = Directory(tmp_path / "k", 0o700)
    assert prepare(directory) == prepare(directory)


def test_a_directory_whose_mode_is_not_known_is_neither_made_nor_changed(tmp_path):
    failed = prepare(Directory(tmp_path / "k", None))
    assert isinstance(failed, Failed)
    assert not (tmp_path / "k").exists()
    (tmp_path / "k").mkdir(mode=0o711)
    assert isinstance(prepare(Directory(tmp_path / "k", None)), Place)
    assert mode_of(tmp_path / "k") == 0o711


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (lambda path: path.touch(), "a plain file"),
        (lambda path: path.symlink_to("/tmp"), "a symbolic link"),
        (lambda path: path.symlink_to("/nowhere"), "a symbolic link"),
    ],
)
def test_what_is_in_the_place_of_a_directory_is_named_and_left_alone(tmp_path, put, words):
    path = tmp_path / "k"
    put(path)
    failed = prepare(Directory(path, 0o700))
    assert failed.reason == "missing"
    assert words in failed.message
    assert path.is_file() or path.is_symlink()


def test_a_plain_file_in_the_place_of_the_namespace_is_a_fault_with_a_sentence(tmp_path):
    (tmp_path / "default").touch()
    failed = prepare(Directory(tmp_path / "default" / "k", 0o700))
    assert failed.reason == "missing"
    assert str(tmp_path / "default" / "k") in failed.message


def test_emptying_removes_everything_but_the_directory_and_what_links_lead_to(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    directory = tmp_path / "k"
    (directory / "clients" / "a").mkdir(parents=True)
    (directory / "vineyard.sock").touch()
    (directory / "link").symlink_to(outside)
    assert empty(directory, threading.Event()) == []
    assert list(directory.iterdir()) == []
    assert (outside / "keep").exists()


def test_emptying_stops_when_it_is_given_up(tmp_path):
    (tmp_path / "vineyard.sock").touch()
    given_up = threading.Event()
    given_up.set()
    empty(tmp_path, given_up)
    assert (tmp_path / "vineyard.sock").exists()


def test_emptying_what_is_not_there_or_no_directory_is_nothing(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "keep").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("nothing", "link"):
        assert empty(tmp_path / name, threading.Event()) == []
    assert (tmp_path / "target" / "keep").exists()


def test_emptying_leaves_the_locks_of_engines_that_live_and_removes_those_of_dead_ones(tmp_path):
    (tmp_path / "clients").mkdir()
    (tmp_path / "store.json").write_text("{}")
    dead, alive = (tmp_path / "clients" / f"{'0' * 32}.{digit * 32}" for digit in "12")
    ClientLock(dead).close()
    lock = ClientLock(alive)
    assert empty(tmp_path, threading.Event()) == []
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "clients", alive]
    lock.close()
    assert empty(tmp_path, threading.Event()) == []
    assert list(tmp_path.iterdir()) == []
