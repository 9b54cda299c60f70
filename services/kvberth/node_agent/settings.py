"""What the node agent can be told from outside."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from kvberth.service import ServiceSettings


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("should be an absolute path, such as /var/run/vineyard-kubernetes")
    return path


class NodeAgentSettings(ServiceSettings):
    """The settings of one node's agent."""

    node: str = Field(min_length=1)
    """Name of the node that this agent speaks for. Required."""

    root: Annotated[Path, AfterValidator(_absolute)]
    """Directory below which a cache's directory is <namespace>/<name>. Required; on Kubernetes the mount."""

    recheck_s: float = Field(1.0, ge=0.05, le=60)
    """Seconds between two looks at a cache that nothing stirred. Default 1: a stopped daemon gives no other sign."""

    answer_s: float = Field(1.0, ge=0.05, le=30)
    """Seconds that a daemon may take for an answer. Default 1; two misses in a row mean hung."""

    proof_s: float = Field(0.8, ge=0.05, le=60)
    """Seconds from one proof of a cache to the next. Default 0.8: with two deadlines of 0.4 s a hang is said in 2 s."""

    empty_after_s: float = Field(60.0, ge=0.05, le=86400)
    """Seconds until a dropped directory is emptied. Default 60: a new want within that time finds it as it was."""

    reread_s: float = Field(30.0, gt=0, le=3600)
    """How often the wants are read anew while one says drop. Default 30: then its end is forgotten within a minute."""
