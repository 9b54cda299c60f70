"""What a node agent claims of its state directory, so that a node has one agent."""

from kvberth.node_agent.settings import NodeAgentSettings
from kvberth.service import Claim
from kvberth_schemas import names


def claim_of(settings: NodeAgentSettings) -> Claim:
    """Give the lock, the counter of starts, and the sentence for a second agent of the node."""
    directory = settings.state / "node_agent" / names.encode(settings.node)
    taken = (
        f"Another agent of the node {settings.node} is running; end it, or give this one another node in KVBERTH_NODE "
        "or another directory in KVBERTH_STATE."
    )
    return Claim(directory / "lock", directory / "term", taken)


def deposed_sentence(node: str) -> str:
    """Say why an agent ends that found another one's word on the bus."""
    return (
        f"Another agent of the node {node} with a higher term speaks on the bus, so this one ends and leaves its "
        "directories alone; a node has one agent with one KVBERTH_STATE."
    )
