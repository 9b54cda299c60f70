"""What a runner claims of its node's directory, so that a node has one runner."""

from pathlib import Path

from kvberth.service import Claim


def claim_of(node_directory: Path, node: str) -> Claim:
    """Give the lock, the counter of starts, and the sentence for a second runner of the node."""
    taken = (
        f"Another runner of the node {node} is running; end it, or give this one another node in KVBERTH_NODE "
        "or another directory in KVBERTH_STATE."
    )
    return Claim(node_directory / "runner.lock", node_directory / "starts", taken)
