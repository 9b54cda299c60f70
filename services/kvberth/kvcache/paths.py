"""Where directory and socket of a cache are, on the host and below a bare node's root. Pure: touches no disk."""

from typing import Final, Protocol, Self, TypeVar

from kvberth_schemas.manifests import Complaint

HOST_PREFIX: Final = "/var/run/vineyard-kubernetes"
SOCKET_GROUP: Final = 10001
"""The group of cache directories on Kubernetes: whoever is in it may connect."""
SOCKET_NAME: Final = "vineyard.sock"
MAX_SOCKET_PATH: Final = 107
"""Bytes that a Unix socket's path may have (108 with the closing zero)."""


class Directory(Protocol):
    """A path of whatever kind the caller has, such as `pathlib.Path`."""

    def joinpath(self, *parts: str) -> Self:
        """Return the path of what lies below."""
        ...


D = TypeVar("D", bound=Directory)

_PREFIX_PARTS: Final = tuple(HOST_PREFIX.strip("/").split("/"))


def host_directory(namespace: str, name: str) -> str:
    """Return the directory of a KVCache's caches on every host."""
    return f"{HOST_PREFIX}/{namespace}/{name}"


def map_host_path(host_path: str, node_root: D) -> D | None:
    """Return where a host path lies below a bare node's root: the prefix is dropped.

    None for a path that is not below the prefix, and for one with `..` in it.
    """
    parts = _below_prefix(host_path)
    return node_root.joinpath(*parts) if parts else None


def kvcache_of_host_path(host_path: str) -> tuple[str, str] | None:
    """Return namespace and name of the KVCache whose directory a host path is, or lies in."""
    parts = _below_prefix(host_path)
    return (parts[0], parts[1]) if len(parts) >= 2 else None


def socket_path(directory: D) -> D:
    """Return the socket in the directory of a cache."""
    return directory.joinpath(SOCKET_NAME)


def socket_path_complaint(path: object) -> Complaint | None:
    """Return why a socket can't have this path: its length in bytes, which the kernel limits."""
    length = len(str(path).encode("utf-8", "surrogateescape"))
    if length <= MAX_SOCKET_PATH:
        return None
    problem = f"makes the socket path {path} of {length} bytes; {MAX_SOCKET_PATH} are allowed"
    return Complaint(
        "metadata.name", problem, f"shorten namespace or name by {length - MAX_SOCKET_PATH}, or the node's root"
    )


def _below_prefix(host_path: str) -> tuple[str, ...]:
    """The parts below the prefix; empty when there are none, or when `..` or a zero byte would lead elsewhere."""
    parts = tuple(part for part in host_path.split("/") if part not in {"", "."})
    below = host_path.startswith("/") and parts[: len(_PREFIX_PARTS)] == _PREFIX_PARTS
    if ".." in parts or "\0" in host_path or not below:
        return ()
    return parts[len(_PREFIX_PARTS) :]
