"""The node agent, one per node: looks after the caches' directories and says whether their sockets answer."""
