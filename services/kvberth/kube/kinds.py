"""How one kind is read from raw bytes: pages of a list and frames of a watch. Pure.

The quick way parses straight into the trimmed model and never builds what is dropped. Where something does not fit, the
slow way finds out what: a bookmark, the server's error, or one bad object among good ones.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvberth.kube.objects import Entry, Key, KubeObject, Meta, Trimmed, Unreadable
from kvberth.kube.resources import Resource

T = TypeVar("T")
M = TypeVar("M", bound=KubeObject)


class Malformed(ValueError):  # noqa: N818 - the name says what it is
    """Bytes that no API server sends: cut off, a proxy's page, another kind's object."""


class FrameType(StrEnum):
    """What a watch says about an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """A frame about an object."""

    type: FrameType
    item: Entry[T] | Unreadable


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to this version was told."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Fault:
    """The server's error within a stream that began well; `told` is its Status."""

    status: int
    told: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    resource_version: str
    more: str
    """The token of the next page; empty on the last."""
    items: tuple[Entry[T] | Unreadable, ...]


class _ListMeta(Trimmed):
    resource_version: str
    more: str = Field(default="", alias="continue")


class _List(Trimmed, Generic[M]):
    metadata: _ListMeta
    items: list[M] | None


class _Frame(BaseModel, Generic[M]):
    model_config = ConfigDict(frozen=True, extra="ignore")

    type: FrameType
    object: M


class Kind(Generic[T]):
    """One kind as its reader keeps it."""

    def __init__(self, resource: Resource, model: type[KubeObject], trim: Callable[[Any], T]) -> None:
        """`model` names the fields that are read; `trim`, pure, makes of it what is kept and may raise ValueError."""
        self.resource, self._trim = resource, trim
        self._model = model
        self._list: type[_List[Any]] = _List[model]  # type: ignore[valid-type] # made at run time
        self._frame: type[_Frame[Any]] = _Frame[model]  # type: ignore[valid-type]

    def read_page(self, body: bytes) -> Page[T]:
        """Read a list.

        Raises:
            Malformed: the bytes are no list, or an item has no name.
        """
        try:
            page = self._list.model_validate_json(body)
            items = tuple(self._entry(item) for item in page.items or ())
        except ValueError:
            return self._slow_page(body)
        return Page(page.metadata.resource_version, page.metadata.more, items)

    def read_frame(self, line: bytes) -> Seen[T] | Bookmark | Fault:
        """Read a line of a watch.

        Raises:
            Malformed: the line is nothing that a watch says.
        """
        try:
            frame = self._frame.model_validate_json(line)
            return Seen(frame.type, self._entry(frame.object))
        except ValueError:
            return self._slow_frame(line)

    def read_bytes(self, body: bytes) -> Entry[T] | Unreadable:
        """Read one object.

        Raises:
            Malformed: the bytes are no object with a name.
        """
        try:
            return self._entry(self._model.model_validate_json(body))
        except ValueError:
            return self.read(_json(body))

    def read(self, raw: object) -> Entry[T] | Unreadable:
        """Read one object from plain JSON.

        Raises:
            Malformed: it has no name, so that nothing can be said about it.
        """
        try:
            _check_texts(raw)
            return self._entry(self._model.model_validate(raw))
        except ValueError as error:
            return _unreadable(raw, error)

    def _entry(self, item: KubeObject) -> Entry[T]:
        meta = item.metadata
        return Entry(Key(meta.namespace, meta.name), meta.uid, meta.resource_version, self._trim(item))

    def _slow_page(self, body: bytes) -> Page[T]:
        value = _json(body)
        items = value.get("items") or []
        try:
            meta = _ListMeta.model_validate(value.get("metadata"))
            return Page(meta.resource_version, meta.more, tuple(self.read(item) for item in items))
        except (ValidationError, TypeError) as error:
            raise Malformed(f"is no list of {self.resource.kind}: {_quoted(body)}") from error

    def _slow_frame(self, line: bytes) -> Seen[T] | Bookmark | Fault:
        value = _json(line)
        said, told = value.get("type"), value.get("object")
        if not isinstance(told, dict):
            raise Malformed(f"is no frame of a watch: {_quoted(line)}")
        if said == "ERROR":
            code = told.get("code")
            return Fault(code if isinstance(code, int) else 0, told)
        if said == "BOOKMARK":
            return Bookmark(_version(told, line))
        if not isinstance(said, str) or said not in set(FrameType):
            raise Malformed(f"is no frame of a watch: {_quoted(line)}")
        return Seen(FrameType(said), self.read(told))


def whole(resource: Resource, model: type[M]) -> Kind[M]:
    """A kind of which everything that its model names is kept."""

    def keep(item: M) -> M:
        return item

    return Kind(resource, model, keep)


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"is no JSON: {_quoted(body)}") from error
    if not isinstance(value, dict):
        raise Malformed(f"is no object: {_quoted(body)}")
    return value


def _check_texts(raw: object) -> None:
    """Raise ValueError where a text holds half of a surrogate pair: JSON may, but no message could carry it on."""
    try:
        json.dumps(raw, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a surrogate pair, which is no character") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def _version(told: dict[str, Any], line: bytes) -> str:
    metadata = told.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version:
        raise Malformed(f"is a bookmark without a resourceVersion: {_quoted(line)}")
    return version


def _unreadable(raw: object, error: ValueError) -> Unreadable:
    try:
        meta = Meta.model_validate(raw["metadata"] if isinstance(raw, dict) else None)
    except (KeyError, ValidationError):  # the fault lies in the metadata itself
        meta = _named(raw)
    try:
        _check_texts(meta.model_dump(include={"name", "namespace", "uid", "resource_version"}))
    except ValueError as wrong:
        raise Malformed("is an object whose name is no text") from wrong
    return Unreadable(Key(meta.namespace, meta.name), meta.uid, meta.resource_version, _sentence(error))


def _named(raw: object) -> Meta:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise Malformed("is an object without a name")
    texts = {
        key: metadata[key] for key in ("namespace", "uid", "resourceVersion") if isinstance(metadata.get(key), str)
    }
    return Meta.model_validate({"name": metadata["name"], **texts})


def _sentence(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"


def _quoted(body: bytes) -> str:
    return repr(body[:120].decode("utf-8", "replace"))
