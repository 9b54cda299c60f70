"""What the transfer worker can be told from outside."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from kvberth.service import ServiceSettings
from kvberth.store.errors import LayoutRefused
from kvberth.store.layout.geometry import Geometry
from kvberth.store.layout.sizing import geometry_for
from kvberth.store.layout.superblock import Checksum
from kvberth.transfer_worker.account import Whose

_MIB = 1 << 20


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("should be an absolute path, such as /var/run/vineyard-kubernetes/default/cache")
    return path


class TransferWorkerSettings(ServiceSettings):
    """The settings of one cache's transfer worker."""

    directory: Annotated[Path, AfterValidator(_absolute)]
    """Directory of the cache: `vineyard.sock` lies there, and `kvberth.sock` will. Required."""

    namespace: str | None = Field(None, min_length=1)
    """Namespace of the KVCache whose cache this is. Default none. The bus is told where kvcache, node and nats_url are
    given, too."""

    kvcache: str | None = Field(None, min_length=1)
    """Name of that KVCache. Default none."""

    block_bytes: int | None = Field(None, ge=1)
    """How many bytes of blocks the store holds: arenas and extents follow. Default none: they are given as below."""

    arenas: int = Field(1, ge=1, le=256)
    """How many arenas the store has. Default 1."""

    arena_mib: int = Field(1024, ge=1)
    """MiB of one arena. Default 1024."""

    extent_mib: int = Field(64, ge=1)
    """MiB of the pieces that are lent to one layout of blocks; no block is larger. Default 64."""

    least_slot_kib: int = Field(64, ge=4)
    """KiB of the least slots that an extent has headers for; smaller ones waste room. Default 64."""

    checksums: bool = True
    """Whether blocks have checksums. Default yes: 70 to 150 us for 2 MiB, beside the engine's copies."""

    budget_mib: int | None = Field(None, ge=1)
    """MiB that wait for slots or are granted, of all engines together. Default: 512, or an eighth of the store."""

    scrub_mib_s: int = Field(8, ge=0, le=4096)
    """MiB of blocks a second that are compared with their checksums. Default 8, for a thousandth of a core; 0: none."""

    grant_s: float = Field(30.0, ge=0.1, le=3600)
    """Seconds that an engine has for a copy. Default 30; then its slot is kept apart until it says that it ended."""

    shard_wait_s: float = Field(2.0, ge=0.1, le=60)
    """Seconds that a block waits, after its first shard is stored, for those of the engine's other ranks. Default 2."""

    @property
    def whose(self) -> Whose | None:
        """What the bus is told about; None where something of it was not given: then nothing is told."""
        if "nats_url" not in self.model_fields_set or not (self.namespace and self.kvcache and self.node):
            return None
        return Whose(self.namespace, self.kvcache, self.node)

    @property
    def geometry(self) -> Geometry:
        if self.block_bytes is not None:
            return geometry_for(self.block_bytes)
        return Geometry(
            self.arenas, self.arena_mib * _MIB, self.extent_mib * _MIB, self.least_slot_kib * 1024
        )  # fmt: skip

    @property
    def checksum(self) -> Checksum:
        return Checksum.XXH3_64 if self.checksums else Checksum.NONE

    @property
    def budget(self) -> int:
        """Bytes."""
        if self.budget_mib is not None:
            return self.budget_mib * _MIB
        return min(512 * _MIB, self.geometry.data_bytes // 8)

    @model_validator(mode="after")
    def _fits(self) -> "TransferWorkerSettings":
        try:
            self.geometry.check()
        except LayoutRefused as error:
            raise ValueError(str(error)) from None
        return self
