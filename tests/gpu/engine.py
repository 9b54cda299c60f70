"""An engine with a tensor on a GPU, in a process of its own: stores a block, says so, and waits to be killed."""

import sys
import time

import torch

from kvberth.client import Client

tensor = torch.full((8, 65536), 3, dtype=torch.uint8, device="cuda")
client = Client(sys.argv[1], [tensor], {"model": "m"})
if not client.wait_connected(30) or not client.offload([bytes(32)], [0]).wait(30):
    sys.exit(f"there is no cache: {client.why}")
sys.stdout.write("ready\n")
sys.stdout.flush()
time.sleep(600)
