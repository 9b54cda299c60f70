"""Starts the node agent of one node; everything it needs to know comes from ``KVBERTH_*``."""

from kvberth.node_agent.service import SERVICE, main
from kvberth.node_agent.settings import NodeAgentSettings
from kvberth.service import serve

if __name__ == "__main__":
    serve(SERVICE, NodeAgentSettings, main)
