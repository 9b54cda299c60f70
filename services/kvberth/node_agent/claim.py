"""What a node agent claims of its state directory, so that a node has one agent."""

from kvberth.bus.readiness import taken_over
from kvberth.node_agent.settings import NodeAgentSettings
from kvberth.service import Claim, DirectoryLock
from kvberth_schemas import names

_REMEDY = "end it, or give this one another node in KVBERTH_NODE or another directory in KVBERTH_STATE"


def claim_of(settings: NodeAgentSettings) -> Claim:
    """Give the lock and the counter of starts of a node's agent."""
    directory = settings.state / "node_agent" / names.encode(settings.node)
    lock = DirectoryLock(directory / "lock", f"agent of the node {settings.node}", _REMEDY)
    return Claim(lock, directory / "term")


def deposed_sentence(node: str) -> str:
    """Say why an agent ends that found another one's word on the bus."""
    return taken_over(f"agent of the node {node}", "a node has one agent with one KVBERTH_STATE")
