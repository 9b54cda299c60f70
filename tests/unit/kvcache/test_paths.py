"""Directories and sockets on the host and below a bare node's root."""

from pathlib import Path

import pytest

from kvberth.kvcache import host_directory, kvcache_of_host_path, map_host_path, socket_path, socket_path_complaint

PREFIX = "/var/run/vineyard-kubernetes"


def test_the_directory_of_a_cache_is_the_one_that_aibrix_engines_mount() -> None:
    assert host_directory("default", "kv") == f"{PREFIX}/default/kv"
    assert kvcache_of_host_path(host_directory("default", "kv")) == ("default", "kv")


@pytest.mark.parametrize(
    ("path", "mapped"),
    [
        (f"{PREFIX}/default/kv", "/r/default/kv"),
        (f"{PREFIX}/default/kv/", "/r/default/kv"),
        (f"{PREFIX}//default/./kv", "/r/default/kv"),
        (f"{PREFIX}/default/kv/vineyard.sock", "/r/default/kv/vineyard.sock"),
        (f"{PREFIX}/default", "/r/default"),
        (PREFIX, None),
        (f"{PREFIX}/", None),
        (f"{PREFIX}-other/default/kv", None),
        ("/var/run", None),
        ("/root/models", None),
        ("var/run/vineyard-kubernetes/default/kv", None),
        ("", None),
        (f"{PREFIX}/default/../../../../etc", None),
        (f"{PREFIX}/../vineyard-kubernetes/default/kv", None),
        (f"{PREFIX}/default/k\0v", None),
    ],
)
def test_host_paths_are_mapped_below_the_root_and_nowhere_else(path: str, mapped: str | None) -> None:
    assert map_host_path(path, Path("/r")) == (None if mapped is None else Path(mapped))


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"{PREFIX}/prod/kv", ("prod", "kv")),
        (f"{PREFIX}/prod/kv/vineyard.sock", ("prod", "kv")),
        (f"{PREFIX}/prod", None),
        (PREFIX, None),
        ("/root/models", None),
        (f"{PREFIX}/prod/../other/kv", None),
    ],
)
def test_a_host_path_names_its_kvcache(path: str, owner: tuple[str, str] | None) -> None:
    assert kvcache_of_host_path(path) == owner


def test_a_socket_path_may_have_107_bytes() -> None:
    root = "/" + "r" * 92
    assert socket_path_complaint(socket_path(Path(root))) is None
    complaint = socket_path_complaint(socket_path(Path(root + "r")))
    assert complaint is not None
    assert "of 108 bytes; 107 are allowed; shorten namespace or name by 1" in complaint.sentence()


def test_bytes_are_counted_rather_than_characters() -> None:
    assert socket_path_complaint("/" + "é" * 53) is None
    assert socket_path_complaint("/" + "é" * 54) is not None
