"""All of kvberth on one machine: NATS, the services, a runner and an agent per node, kept alive by `kvberth up`."""

from kvberth.bare.stack.down import stop_up, take_down
from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import Address, Layout
from kvberth.bare.stack.nodes import read_nodes
from kvberth.bare.stack.up import Stack

__all__ = ("Address", "Layout", "Stack", "StackError", "read_nodes", "stop_up", "take_down")
