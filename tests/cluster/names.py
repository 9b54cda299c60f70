"""Under which names a cluster must find our images, so that the manifests of others run unchanged. Pure but `of`."""

import re
from collections.abc import Iterator
from pathlib import Path

from kvberth_schemas.manifests import load_documents

ENGINE, CACHE = "engine-stand-in", "vineyardd"
_PODS = ("containers", "initContainers")
_CACHES = ("cacheSpec", "cache")
_NAME = re.compile(r"[a-z0-9][\w.-]*(:\d+)?(/[\w.-]+)*:[\w.-]+")


def of(folders: list[Path]) -> dict[str, set[str]]:
    """Give the names that stand in manifests and scenarios, by the target of the Dockerfile that stands for them."""
    found: dict[str, set[str]] = {ENGINE: set(), CACHE: set()}
    for path in sorted(file for folder in folders for file in folder.rglob("*.yaml")):
        for item in load_documents(path.read_text(encoding="utf-8"), str(path)):
            for target, name in images(item.raw):
                found[target].add(whole(name))
    return found


def images(value: object, parent: str = "") -> Iterator[tuple[str, str]]:
    """Give (target, name) for every image anywhere in an object; what is no name is left out."""
    if isinstance(value, dict):
        name = value.get("image")
        target = ENGINE if parent in _PODS else CACHE if parent in _CACHES else None
        if target and isinstance(name, str) and _NAME.fullmatch(name):
            yield target, name
        for key, inner in value.items():
            yield from images(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from images(inner, parent)


def whole(name: str) -> str:
    """Give a name as container runtimes spell it out: with its registry."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
