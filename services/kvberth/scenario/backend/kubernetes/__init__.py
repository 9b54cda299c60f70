"""Scenarios on a Kubernetes cluster: objects through the API server, processes and sockets through a witness per node.

`KubernetesBackend` is in `world`; nothing is imported here, since the witness runs in a small pod.
"""
