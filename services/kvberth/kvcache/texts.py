"""Finds texts that nothing could carry on: no process, path or message can hold them. Pure."""

from collections.abc import Iterator, Mapping

from kvberth.kvcache.faults import join
from kvberth_schemas.manifests import Complaint


def unspeakable_texts(value: object, path: str = "") -> Iterator[Complaint]:
    """Yield every text of an object, keys included, that holds a NUL or half of a surrogate pair.

    Goes as deep as the object is, which the caller has bounded.
    """
    if isinstance(value, str):
        problem = _problem(value)
        if problem is not None:
            yield Complaint(path, problem, "remove it")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _key(key, path)
            yield from unspeakable_texts(item, join(path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unspeakable_texts(item, join(path, index))


def _key(key: object, path: str) -> Iterator[Complaint]:
    problem = _problem(key) if isinstance(key, str) else None
    if problem is not None:
        yield Complaint(path or "document", f"the key {key!r} {problem}", "remove it")


def _problem(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL (\\0), which no process, path or label can hold"
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "holds half of a surrogate pair, which is no character"
    return None
