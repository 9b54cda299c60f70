"""The block store: KV blocks in memory that processes share, written by one worker and read by many clients.

Layout and rules: docs/store.md. A library: no service, no bus, no socket of its own. `blockstore` is the one writer of
a store, `reader` reads in any process, `walk` checks it all; `control` and `rings` are what clients and the worker say.
Nothing is imported here: who plans for a store needs its sizes (`layout`), and nothing that computes checksums.
"""
