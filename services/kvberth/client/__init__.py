"""The engine half of a cache: a library that an engine imports, and the only way in which its blocks are moved.

The engine's own process copies, always. Imports no service of kvberth, no bus and no torch; needs numpy and xxhash.
docs/store.md says what lies in memory and who may touch it when; examples/offload.py shows it in use,
examples/shards.py with an engine of several ranks.
"""

from kvberth.client.client import Client, Found
from kvberth.client.keys import chain
from kvberth.client.parts import Parts
from kvberth.client.tickets import Ticket
from kvberth.store.layout.rings import Outcome

__all__ = ["Client", "Found", "Outcome", "Parts", "Ticket", "chain"]
