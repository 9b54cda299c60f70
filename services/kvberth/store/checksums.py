"""The checksum over a block's bytes in its slot: xxh3, 64 bits, on by default.

Cost (measured, 2 MiB): 70 to 150 us where a plain copy takes 200 to 360 us, so it is computed beside
the copies, never before them: the worker's threads for a put, a thread behind the copy for a get. `xxhash` releases the
interpreter lock for it. It is there against damage, not against enemies: whoever maps the memory can write both.
"""

import xxhash

from kvberth.store.layout.superblock import Checksum


def checksum(kind: Checksum, data: memoryview) -> int:
    """The checksum word of a block; 0 where the store has none."""
    if kind is Checksum.NONE:
        return 0
    return xxhash.xxh3_64_intdigest(data)
