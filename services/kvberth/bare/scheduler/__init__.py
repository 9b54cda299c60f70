"""The scheduler of the bare backend: its API, and the only writer of pods, nodes, specs and engine wants.

It keeps what users applied, binds engines to nodes, and says so on the bus. It starts no process: runners do.
"""
