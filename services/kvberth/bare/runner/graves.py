"""Remembers the engines that ended for good, so that no old want can revive them.

A NATS server that is killed may bring back a want that was overwritten and purged: to it a purge of a subject is no
more than a missing message. A pod's uid never runs twice, so for engines the end is the last word.
"""

from collections.abc import Collection
from pathlib import Path
from threading import Lock

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from kvberth.bare.runner.record import Key
from kvberth.service.files import sync_directories, write_whole

MOST = 1000
"""The newest are kept; an older want would have to survive as many engines on one node."""

_log = structlog.get_logger(__name__)


class _Ended(BaseModel):
    model_config = ConfigDict(frozen=True)

    engines: tuple[Key, ...] = ()


class Graves:
    """The ended engines of a node, in one file. Blocking; several threads may dig at a time."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self._path = path
        self._keys: dict[Key, None] = {}
        self._writing = Lock()  # the file has one draft

    @property
    def keys(self) -> Collection[Key]:
        """The engines that must never run again."""
        return self._keys.keys()

    def load(self) -> None:
        """Read the file; what can't be read is said, and forgotten."""
        try:
            found = _Ended.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValidationError) as error:
            _log.warning(f"{self._path} can't be read; ended engines are forgotten: {str(error).splitlines()[0]}")
            return
        self._keys = dict.fromkeys(found.engines)

    def dig(self, key: Key) -> None:
        """Remember an engine. Raises OSError, and then it is remembered only until this runner ends."""
        with self._writing:
            self._keys[key] = None
            for oldest in list(self._keys)[:-MOST]:
                del self._keys[oldest]
            write_whole(self._path, _Ended(engines=tuple(self._keys)).model_dump_json())
            sync_directories([self._path.parent])
