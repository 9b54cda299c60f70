"""Who speaks on a bus, where it is, and how patient he is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from kvberth_schemas.subjects import Service


class Reached(Protocol):
    """What a service's own settings say about its bus."""

    @property
    def nats_url(self) -> str: ...
    @property
    def nats_nkey_file(self) -> Path | None: ...
    @property
    def nats_tls_ca(self) -> Path | None: ...
    @property
    def instance(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    """All times are seconds."""

    url: str
    """Of the NATS server, as ``nats://127.0.0.1:4222``."""
    service: Service
    instance: str
    """Tells instances of one service apart, for people: rows belong to (service, node)."""
    node: str | None = None
    nkey_file: Path | None = None
    """File with the seed of the key that it signs in with, read at every connect; None: without."""
    tls_ca: Path | None = None
    """File with the certificates that the server's own must be signed by; None: those of this machine."""
    term: int = 0
    """Grows with every start (bare) or change of the Lease (Kubernetes): the higher term is the rightful writer."""

    reconnect_wait_s: float = 0.5
    ping_s: float = 1.0
    """How often the connection has to prove that it carries a message to the server and back."""
    ping_timeout_s: float = 2.0
    publish_timeout_s: float = 2.0
    reconcile_s: float = 600.0
    """How often a writer reads the last state of its subjects anew."""
    stale_after_s: float = 12 * 3600.0
    """A row older than this is said again: the stream forgets what is older than a day."""
    created_check_s: float = 5.0
    """How often the streams' creation times are asked for."""
    heartbeat_s: float = 1.0
    """How often a silent consumer has to say that it lives; three missed ones end it."""

    @classmethod
    def of(cls, settings: Reached, service: Service, *, node: str | None = None, term: int = 0) -> Self:
        """Give the settings of a service's bus by its own settings."""
        return cls(
            url=settings.nats_url,
            nkey_file=settings.nats_nkey_file,
            tls_ca=settings.nats_tls_ca,
            service=service,
            instance=settings.instance,
            node=node,
            term=term,
        )

    @property
    def source(self) -> str:
        """The envelope's ``ce-source``."""
        return f"/kvberth/{self.service}/{self.instance}"
