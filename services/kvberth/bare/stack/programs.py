"""Which programs make up the stack, and what each is told. Starts nothing."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from kvberth.bare.stack.errors import StackError
from kvberth.bare.stack.layout import NATS, Layout
from kvberth.bare.stack.supervisor import Program
from kvberth_schemas import names


def nats_program(layout: Layout, port: int) -> Program:
    """Give the NATS server with JetStream and its monitoring, on loopback.

    Raises:
        StackError: no nats-server is installed.
    """
    store = ("-js", "-sd", str(layout.nats))
    monitoring = ("-m", "-1", "--ports_file_dir", str(layout.records))  # on any free port, which that file tells
    return Program(NATS, (str(find_nats_server()), "-a", "127.0.0.1", "-p", str(port), *store, *monitoring))


def service_programs(layout: Layout, nats_url: str, nodes: Iterable[str], extra: dict[str, str]) -> list[Program]:
    """Give the services: one placement, one scheduler, and a runner and an agent per node."""
    common = {"KVBERTH_NATS_URL": nats_url, "KVBERTH_STATE": str(layout.state), **extra}
    programs = [
        _module("placement", "kvberth.placement", common),
        _module("scheduler", "kvberth.bare.scheduler", common),
    ]
    for node in nodes:
        here = {
            **common,
            "KVBERTH_NODE": node,
            "KVBERTH_ROOT": str(layout.node_root(node)),
            "KVBERTH_NODE_FILE": str(layout.node_file(node)),
        }
        programs.append(_module(f"runner-{names.encode(node)}", "kvberth.bare.runner", here))
        programs.append(_module(f"node_agent-{names.encode(node)}", "kvberth.node_agent", here))
    return programs


def find_nats_server() -> Path:
    """Find the nats-server of the wheel, else one on the PATH.

    Raises:
        StackError: there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    if os.access(beside, os.X_OK):
        return beside
    if found := shutil.which("nats-server"):
        return Path(found)
    raise StackError('nats-server is not installed: pip install "kvberth[bare]" brings it')


def _module(name: str, module: str, env: dict[str, str]) -> Program:
    return Program(name, (sys.executable, "-m", module), env)
