"""A real nats-server that lets in only who has a key, each with the rights of its service; and what it saw of each.

The rights are the committed ones; the keys are made anew. It traces every message, so that a test can tell what was
said and heard by whom, and what was refused.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kvberth.bus.keys import new_key
from kvberth_schemas.natsconf import users, variable
from kvberth_schemas.rights import ON_BARE, ON_KUBERNETES
from kvberth_schemas.subjects import Service
from support.nats import NatsServer

_WHO = r'"[^"]*/nkey:(?P<key>[A-Z0-9]+)"'
_TRACE = re.compile(_WHO + r" - <<- \[(?P<verb>PUB|HPUB|SUB) (?P<subject>\S+)")
_REFUSALS = ("publish violation", "subscription violation", "authorization violation")

RARE = {
    "$JS.API.STREAM.UPDATE.": "a stream that an older release declared otherwise",
    "$JS.API.STREAM.MSG.GET.": "a publish that another one came before, a message that can't be read",
    "$JS.API.STREAM.PURGE.": "a want that has ended, a message that can't be read",
    "$JS.API.STREAM.MSG.DELETE.": "a want that is said anew",
    "$JS.API.CONSUMER.INFO.": "a consumer whose last pending message was purged",
    "$JS.FC.": "many messages at once",
}
"""Rights that a story need not use, and what for."""


@dataclass
class Seen:
    """What one service did."""

    published: set[str] = field(default_factory=set)
    subscribed: set[str] = field(default_factory=set)


class SecuredNats(NatsServer):
    """A `NatsServer` with users; `strangers`: who has no key may do everything, as those whom a test plays."""

    def __init__(
        self, directory: Path, services: tuple[Service, ...] = ON_BARE, more: str = "", *, strangers: bool = False
    ) -> None:
        super().__init__(directory)
        self._directory, self._services, self._more = directory, services, more
        self._stranger = new_key().public if strangers else None
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
        lets_in = users(self._services)
        if self._stranger is not None:
            first = f"users = [\n    {{nkey = {self._stranger}}}\n"
            lets_in = f"no_auth_user = {self._stranger}\n" + lets_in.replace("users = [\n", first)
        configuration.write_text(listen + traced + self._more + named + lets_in)
        return ["-c", str(configuration)]

    def seen(self) -> dict[Service, Seen]:
        """Give by service which subjects it published on and subscribed to."""
        found: dict[Service, Seen] = defaultdict(Seen)
        services = {key.public: service for service, key in self.keys.items()}
        for match in _TRACE.finditer(self.log.read_text(errors="replace")):
            if match["key"] not in services:
                continue
            one = found[services[match["key"]]]
            (one.subscribed if match["verb"] == "SUB" else one.published).add(match["subject"])
        return found

    def refusals(self) -> list[str]:
        """Give the server's lines about what it refused."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if any(word in line.lower() for word in _REFUSALS)]


def unused(rights: Iterable[str], subjects: Iterable[str], also_rare: Iterable[str] = ()) -> set[str]:
    """Give the rights that none of the subjects needs, without the rare ones."""
    known = list(subjects)
    found = {right for right in rights if not any(matches(right, subject) for subject in known)}
    return {right for right in found if not right.startswith((*RARE, *also_rare))}


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject, or a whole pattern that is subscribed to, lies within a pattern of NATS."""
    wanted, found = pattern.split("."), subject.split(".")
    for place, token in enumerate(wanted):
        if token == ">":
            return len(found) > place
        if place >= len(found) or (token not in ("*", found[place]) or (token == "*" and found[place] == ">")):
            return False
    return len(wanted) == len(found)
