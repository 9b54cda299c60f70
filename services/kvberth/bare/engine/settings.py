"""What the stand-in is told by its environment, which is what a real engine is told too."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

LEGACY_PREFIX = "AIBRIX_LLM_KV_CACHE"
SOCKET_VARIABLE = "AIBRIX_LLM_KV_CACHE_SOCKET"
HOST_VARIABLE = "KVBERTH_ENGINE_HOST"
PORT_VARIABLE = "KVBERTH_ENGINE_PORT"
DRAIN_VARIABLE = "KVBERTH_ENGINE_DRAIN_S"
SCALE_VARIABLE = "KVBERTH_ENGINE_SCALE"
DIRECTORY_VARIABLE = "KVBERTH_CACHE_DIRECTORY"
BLOCKS_VARIABLE = "STAND_IN_BLOCKS"
DEFAULT_DIRECTORY = "/var/run"
DEFAULT_SOCKET = f"{DEFAULT_DIRECTORY}/vineyard.sock"
_MOST_BLOCKS = 1 << 16


class SettingsError(ValueError):
    """A variable is missing or wrong; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`socket` is None for an engine that does not talk to vineyardd itself."""

    host: str
    """Address on which /health is served; loopback unless told otherwise."""
    port: int
    socket: str | None
    drain_s: float
    """Seconds between SIGTERM and the end, as for requests that are being answered."""
    blocks: int
    """How many blocks of 64 KiB it keeps in its cache, by kvberth.client; 0: none."""
    directory: str
    """Of its cache."""
    scale: float
    """Multiplies every wait, so that tests need not last as long as the real thing."""

    @classmethod
    def of(cls, env: Mapping[str, str] = os.environ) -> "EngineSettings":
        """Read the environment.

        Raises:
            SettingsError: with the variable's name.
        """
        legacy = any(name.startswith(LEGACY_PREFIX) for name in env)
        return cls(
            host=env.get(HOST_VARIABLE) or "127.0.0.1",
            port=_port(env.get(PORT_VARIABLE, "")),
            socket=(env.get(SOCKET_VARIABLE) or DEFAULT_SOCKET) if legacy else None,
            blocks=_blocks(env.get(BLOCKS_VARIABLE) or "0"),
            directory=env.get(DIRECTORY_VARIABLE) or DEFAULT_DIRECTORY,
            drain_s=_seconds(env, DRAIN_VARIABLE, 0.0),
            scale=_seconds(env, SCALE_VARIABLE, 1.0),
        )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise SettingsError(f"{PORT_VARIABLE} is '{text}'; set it to the TCP port on which /health is to be served")
    return int(text)


def _blocks(text: str) -> int:
    if not text.isdecimal() or int(text) > _MOST_BLOCKS:
        raise SettingsError(f"{BLOCKS_VARIABLE} is '{text}'; it is a number of blocks, up to {_MOST_BLOCKS}")
    return int(text)


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 86400:
        raise SettingsError(f"{name} is '{text}'; it is a number of at least 0")
    return value
