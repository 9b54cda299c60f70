"""A real nats-server that lets in only who has a key, each with the rights of its service; and what it saw of each.

The rights are the committed ones; the keys are made anew. It traces every message, so that a test can tell what was
said and heard by whom, and what was refused.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from kvberth.bus.keys import new_key
from kvberth_schemas.natsconf import users, variable
from kvberth_schemas.rights import ON_BARE, ON_KUBERNETES
from kvberth_schemas.subjects import Service
from support.nats import NatsServer

_TRACE = re.compile(
    r'"v[^"]*:python3:(?P<service>[a-z_]+)/[^"]*" - "[^"]*" - <<- \[(?P<verb>PUB|HPUB|SUB) (?P<subject>\S+)'
)
_REFUSAL = re.compile(r"(Publish|Subscription) Violation.*|.*[Aa]uthorization [Vv]iolation.*")


@dataclass
class Seen:
    """What one service did."""

    published: set[str] = field(default_factory=set)
    subscribed: set[str] = field(default_factory=set)


class SecuredNats(NatsServer):
    """A `NatsServer` with users; `seeds` are the files of their keys."""

    def __init__(self, directory: Path, services: tuple[Service, ...] = ON_BARE, more: str = "") -> None:
        super().__init__(directory)
        self._directory, self._services, self._more = directory, services, more
        self.keys = {service: new_key() for service in {*ON_BARE, *ON_KUBERNETES}}

    def seed(self, service: Service) -> Path:
        file = self._directory / f"{service}.seed"
        file.write_text(self.keys[service].seed + "\n")
        return file

    @property
    def arguments(self) -> list[str]:
        named = "".join(f"{variable(service)} = {self.keys[service].public}\n" for service in self._services)
        configuration = self._directory / "nats.conf"
        listen = f'listen = "127.0.0.1:{self.port}"\njetstream {{ store_dir = "{self.store}" }}\n'
        traced = f'trace = true\ndebug = true\nlogfile = "{self.log}"\n'
        configuration.write_text(listen + traced + self._more + named + users(self._services))
        return ["-c", str(configuration)]

    def seen(self) -> dict[Service, Seen]:
        """Give by service which subjects it published on and subscribed to."""
        found: dict[Service, Seen] = defaultdict(Seen)
        for match in _TRACE.finditer(self.log.read_text(errors="replace")):
            one = found[Service(match["service"])]
            (one.subscribed if match["verb"] == "SUB" else one.published).add(match["subject"])
        return found

    def refusals(self) -> list[str]:
        """Give the server's lines about what it refused."""
        return [match[0] for match in _REFUSAL.finditer(self.log.read_text(errors="replace"))]


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject, or a whole pattern that is subscribed to, lies within a pattern of NATS."""
    wanted, found = pattern.split("."), subject.split(".")
    for place, token in enumerate(wanted):
        if token == ">":
            return len(found) > place
        if place >= len(found) or (token not in ("*", found[place]) or (token == "*" and found[place] == ">")):
            return False
    return len(wanted) == len(found)
