"""The pod watcher: says on the bus what pods, nodes and KVCaches of a Kubernetes cluster are.

`objects` names what is read of them, `pods`, `nodes` and `kvcaches` turn one object into its event, `index` holds all
of it without I/O; `watches`, `owners` and `speaker` are the edges.
"""
