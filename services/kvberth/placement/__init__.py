"""Placement: keeps a cache on exactly the nodes that hold engines of its KVCache, and says so in status.

`observe` turns rows of the bus into a `Snapshot`, `plan` decides without I/O, `apply` is the only part that acts.
"""
