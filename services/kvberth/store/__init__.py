"""The block store: KV blocks in memory that processes share, written by one worker and read by many clients.

Layout and rules: docs/store.md. A library: no service, no bus, no socket of its own. `VineyardMemory` holds the memory,
`BlockStore` is its one writer, `put_all` gives receipts, `Reader` reads in any process, `walk` checks it all.
"""

from kvberth.store.answering import put_all
from kvberth.store.blockstore import BlockStore, Granted, Scrubbed
from kvberth.store.books import Amount, Books
from kvberth.store.errors import EpochEnded, FenceRefused, LayoutRefused, Malformed, StoreError
from kvberth.store.layout.geometry import Geometry
from kvberth.store.layout.rings import Outcome
from kvberth.store.layout.slots import SlotState
from kvberth.store.layout.superblock import Checksum
from kvberth.store.memory import StoreMemory
from kvberth.store.reader import Hit, Reader
from kvberth.store.vineyard_memory import VineyardMemory, attach
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
    "VineyardMemory",
    "Walked",
    "attach",
    "put_all",
    "walk",
]
