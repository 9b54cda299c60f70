"""What a runner claims of its node's directory, so that a node has one runner."""

from pathlib import Path

from kvberth.service import Claim, DirectoryLock

_REMEDY = "end it, or give this one another node in KVBERTH_NODE or another directory in KVBERTH_STATE"


def claim_of(node_directory: Path, node: str) -> Claim:
    """Give the lock and the counter of starts of a node's runner."""
    lock = DirectoryLock(node_directory / "runner.lock", f"runner of the node {node}", _REMEDY)
    return Claim(lock, node_directory / "starts")
