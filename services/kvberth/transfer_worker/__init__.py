"""The transfer worker: the one writer of a cache's block store, beside its vineyardd. docs/store.md says all rules.

Grants slots to engines, publishes what they copied, gives receipts, evicts. Copies nothing and never maps an engine's
memory. Engines reach it by `kvberth.client`.
"""
