"""The block store: KV blocks in memory that processes share, written by one worker and read by many clients.

Layout and rules: docs/store.md. A library: no service, no bus, no socket of its own.
"""
