"""The block store: KV blocks in memory that processes share, written by one worker and read by many clients.

Layout and rules: docs/store.md. A library: no service, no bus, no socket of its own. `BlockStore` is the one writer of
a store, `Reader` reads in any process, `walk` checks it all; `control` and `rings` are what clients and the worker say.
`vineyard_memory`, which holds the memory, is imported by who needs it: an engine's process does not.
"""

from kvberth.store.blockstore import BlockStore, Granted, Scrubbed
from kvberth.store.books import Amount, Books
from kvberth.store.errors import EpochEnded, FenceRefused, LayoutRefused, Malformed, StoreError
from kvberth.store.layout.geometry import Geometry
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.layout.superblock import Checksum
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Hit, Reader
from kvberth.store.walk import Walked, walk

__all__ = [
    "Amount",
    "BlockStore",
    "Books",
    "Checksum",
    "EpochEnded",
    "FenceRefused",
    "Geometry",
    "Granted",
    "Hit",
    "LayoutRefused",
    "Malformed",
    "Outcome",
    "Reader",
    "Scrubbed",
    "SlotState",
    "StoreError",
    "StoreMemory",
    "Walked",
    "walk",
]
