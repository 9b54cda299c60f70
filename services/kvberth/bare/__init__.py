"""The bare backend: a scheduler, and a runner per node, which run engines and caches as processes on plain machines."""
