"""What every service can be told from outside, and the sentences that say which setting is wrong.

The environment (`KVBERTH_*`) wins over the optional YAML file named by `KVBERTH_CONFIG`, which wins over the
defaults. An empty variable counts as unset. A service subclasses `ServiceSettings` and calls `load_settings` on its
own class. This module reads the environment and that one file, nothing else.
"""

import os
import secrets
import socket
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as SourceError

from kvberth.service.config_file import CONFIG_VARIABLE, read_config_file
from kvberth.service.errors import SettingsError
from kvberth.service.setting_faults import describe_fault, describe_unparsed

ENV_PREFIX = "KVBERTH_"

S = TypeVar("S", bound="ServiceSettings")


def _url_with(*schemes: str) -> AfterValidator:
    def check(value: str) -> str:
        url = urlsplit(value)
        if url.scheme not in schemes or not url.hostname:
            raise ValueError(f"should be a URL like {schemes[0]}://host:port")
        return value

    return AfterValidator(check)


def _readable(path: Path) -> Path:
    path = path.expanduser()
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"should be a file that can be read ({error.strerror})") from error
    return path


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _new_instance() -> str:
    return f"{socket.gethostname().split('.')[0]}-{os.getpid()}-{secrets.token_hex(2)}"


class ServiceSettings(BaseSettings):
    """The settings that all services share. Each is read from `KVBERTH_<NAME>` or from `<name>` in the YAML file."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    nats_url: Annotated[str, _url_with("nats", "tls", "ws", "wss")] = "nats://127.0.0.1:4222"
    """URL of the NATS server. Default: a server on this machine. One is enough: a cluster names its others."""

    nats_nkey_file: Annotated[Path, AfterValidator(_readable)] | None = None
    """File with the seed of the nkey that this service signs in with. Default none: a server that asks for nothing."""

    nats_tls_ca: Annotated[Path, AfterValidator(_readable)] | None = None
    """File with the PEM certificates that the NATS server's must be signed by. Default: TLS only for a `tls://` URL."""

    state: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        Path("~/.local/state/kvberth"), validate_default=True
    )
    """Directory that outlives reboots. Default: the user's, because temporary ones are emptied at logout."""

    http_host: str = Field("127.0.0.1", min_length=1)
    """Address on which probes and metrics are served. Default: loopback; a pod sets its own address."""

    http_port: int = Field(0, ge=0, le=65535)
    """TCP port of probes and metrics. Default 0, a free one, so that many services share a machine."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = "info"
    """Least level that is written. Default info: a line per decision, none per message."""

    log_format: Annotated[Literal["json", "console"], BeforeValidator(_lower)] | None = None
    """Form of a log line. Default: console on a terminal, else json, which collectors can parse."""

    otlp_endpoint: Annotated[str, _url_with("http", "https")] | None = None
    """Base URL of an OTLP/HTTP collector for traces. Default none: traces stay off, and cost next to nothing."""

    shutdown_timeout_s: float = Field(10.0, gt=0, le=600)
    """Seconds that a stopping service gets before it is cancelled. Default 10, a third of Kubernetes' grace period."""

    lag_interval_s: float = Field(0.05, gt=0, le=1)
    """Seconds between two looks at how late the event loop runs. Default 0.05: each look wakes the process."""

    instance: str = Field(default_factory=_new_instance, min_length=1)
    """Name of this process among those of its service. Default: host, pid and four random digits."""

    node: str | None = Field(None, min_length=1)
    """Name of the node that this process speaks for. Default none: the service belongs to no node."""

    @property
    def state_given(self) -> bool:
        """Whether somebody chose the state directory; nothing optional is written into one that nobody chose."""
        return "state" in self.model_fields_set

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- pydantic's signature; no .env file is read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the YAML file behind the environment."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, read_config_file())


def load_settings(cls: type[S]) -> S:
    """Read the settings of `cls` from the environment and the file.

    Raises `SettingsError` with one sentence per fault.
    """
    try:
        return cls()
    except SourceError as error:
        raise SettingsError([describe_unparsed(error, cls, ENV_PREFIX)]) from error
    except ValidationError as error:
        file = os.environ.get(CONFIG_VARIABLE)
        raise SettingsError([describe_fault(fault, cls, ENV_PREFIX, file) for fault in error.errors()]) from error
