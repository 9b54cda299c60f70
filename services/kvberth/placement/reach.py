"""Whether an engine can reach the cache beside it by the directories that it mounts. Pure.

An engine that mounts none below the root may still come in by a parent, or by a way that nobody tells of: that is said
and judged no further. One that mounts another KVCache's directory finds that one's socket, or none at all.
"""

from collections.abc import Iterable

from kvberth.kvcache import host_directory
from kvberth.placement.states import Engine
from kvberth.placement.words import more, some


def mounts_another(host_paths: tuple[str, ...], directory: str) -> bool:
    """Whether an engine mounts directories of caches, and none of them leads to this one."""
    return bool(host_paths) and not any(_leads_to(path.rstrip("/"), directory) for path in host_paths)


def astray_sentences(engines: Iterable[Engine], namespace: str, kvcache: str) -> tuple[str, ...]:
    """Say of engines that mount another directory which one that is, which one it should be, and what to do."""
    directory = host_directory(namespace, kvcache)
    return more(
        [
            f"engine {engine.name} on {engine.node} mounts {some(sorted(engine.host_paths))}, not {directory} of its "
            f"KVCache {kvcache}, so it can't reach its cache; mount {directory} in its pod template"
            for engine in sorted(engines, key=lambda engine: engine.name)
        ]
    )


def no_mount_sentence(model: str, namespace: str, kvcache: str) -> str:
    """Say that engines of a model mount no directory of any cache."""
    directory = host_directory(namespace, kvcache)
    return (
        f"an engine of {model} mounts no directory of a cache: to use this one, mount {directory} in its pod template"
    )


def _leads_to(path: str, directory: str) -> bool:
    return path == directory or directory.startswith(f"{path}/") or path.startswith(f"{directory}/")
