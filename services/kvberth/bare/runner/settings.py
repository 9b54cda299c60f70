"""What a runner can be told from outside."""

import shlex
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from kvberth.service import ServiceSettings
from kvberth_schemas import names


def _command(text: str) -> str:
    try:
        shlex.split(text)
    except ValueError as error:
        raise ValueError(f"should be a command line as in a shell ({error})") from error
    return text


class RunnerSettings(ServiceSettings):
    """The settings of the runner of one node."""

    node: str = Field(min_length=1)
    """Name of the node whose processes this runner runs."""

    root: Path
    """Directory below which the sockets of the node lie; short, because a socket's path has 107 bytes at most."""

    node_file: Path | None = None
    """YAML file with the v1 Node object that says what the node has. Default: what the machine has, without GPUs."""

    engine_command: Annotated[str, AfterValidator(_command)] = ""
    """Command line run for every engine, never one of a manifest. Default: the stand-in, which needs no GPU."""

    engine_backoff_s: float = Field(10.0, ge=0, le=300)
    """Wait before an engine's second restart in a row, doubling up to 30 times as long. Default: as the kubelet."""

    reread_s: float = Field(30.0, gt=0, le=3600)
    """How often the wants are read anew while one says stop. Default 30: then its end is forgotten within a minute."""

    @property
    def node_directory(self) -> Path:
        """Where records and logs of the node lie."""
        return self.state / "nodes" / names.encode(self.node)

    @property
    def engine_argv(self) -> tuple[str, ...]:
        """The operator's command, split; empty for the stand-in."""
        return tuple(shlex.split(self.engine_command))
