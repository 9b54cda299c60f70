"""Who speaks on a bus, where it is, and how patient he is."""

from dataclasses import dataclass

from kvberth_schemas.subjects import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class BusSettings:
    """All times are seconds."""

    url: str
    """Of the NATS server, as ``nats://127.0.0.1:4222``."""
    service: Service
    instance: str
    """Tells instances of one service apart, for people: rows belong to (service, node)."""
    node: str | None = None
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

    @property
    def source(self) -> str:
        """The envelope's ``ce-source``."""
        return f"/kvberth/{self.service}/{self.instance}"
