"""What `make test-cluster` is told, by KVBERTH_TEST_* in the environment."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Self

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Settings:
    """One run."""

    kubeconfig: Path
    builder: str
    """podman or docker; empty where images are neither built nor loaded."""
    build_flags: list[str]
    load: list[str]
    """Loads an image archive onto all nodes, called with its path; empty: the cluster has the images."""
    node_driver: str
    """Handles machines, called as ``COMMAND VERB NODE``; empty: what needs it is skipped."""
    keep: Path
    """For what failed scenarios leave."""
    audit: Path | None
    """The API server's audit log, where this machine can read it."""
    scenarios: list[Path]
    time_factor: str
    blocks: bool
    """Whether it is shown who pays for blocks, which takes minutes and 2 GiB of memory."""
    machines: bool
    """Whether machines are added and die, which takes minutes and a node driver."""
    moves: int
    """How often the engine is moved, by kvberth and by a bare PATCH, to measure both; 0: not at all."""

    @classmethod
    def read(cls) -> Self | None:
        """Give what the environment says; None where it names no cluster."""
        kubeconfig = os.environ.get("KUBECONFIG", "")
        if not kubeconfig:
            return None
        told = os.environ.get("KVBERTH_TEST_SCENARIOS", "")
        every = sorted((REPOSITORY / "tests" / "scenarios").glob("*.yaml"))
        audit = os.environ.get("KVBERTH_TEST_AUDIT", "")
        load = shlex.split(os.environ.get("KVBERTH_TEST_LOAD", ""))
        moves = int(os.environ.get("KVBERTH_TEST_MOVES", "30"))
        return cls(
            kubeconfig=Path(kubeconfig),
            builder=os.environ.get("KVBERTH_TEST_BUILDER", "podman") if load else "",
            build_flags=shlex.split(os.environ.get("KVBERTH_TEST_BUILD_FLAGS", "")),
            load=load,
            node_driver=os.environ.get("KVBERTH_TEST_NODE_DRIVER", ""),
            keep=Path(os.environ.get("KVBERTH_TEST_KEEP", REPOSITORY / ".cache" / "test-cluster")),
            audit=Path(audit) if audit else None,
            scenarios=[Path(path) for path in shlex.split(told)] or every,
            time_factor=os.environ.get("KVBERTH_TEST_TIME_FACTOR", "0.02"),
            blocks=os.environ.get("KVBERTH_TEST_BLOCKS", "1") != "0",
            machines=os.environ.get("KVBERTH_TEST_MACHINES", "1") != "0",
            moves=moves,
        )
