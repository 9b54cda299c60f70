"""Writes `rights` as the configuration of a NATS server, one user per service. Generated files; nobody edits them.

The users' public keys come from the server's environment, so that what is committed names none: `kvberth keys` makes
them. A server whose environment lacks one refuses to start.
"""

from collections.abc import Sequence

from kvberth_schemas.rights import ON_BARE, ON_KUBERNETES, Rights, rights_of
from kvberth_schemas.subjects import Service

FILES = {"k8s/components/nkeys/users.conf": ON_KUBERNETES, "compose/users.conf": ON_BARE}
"""Where it is written, and for which services."""
ANSWER_WITHIN_S = 30
"""How long after a request its answer may come: longer than the scheduler takes at most."""

_HEAD = """\
# Written by `make schemas` from kvberth_schemas.rights: who may say and hear what. KVBERTH_NKEY_* are public keys, made
# by `kvberth keys`, in the environment of the server.
"""


def variable(service: Service) -> str:
    """Name the environment variable that holds a service's public key."""
    return f"KVBERTH_NKEY_{service.upper()}"


def users(services: Sequence[Service]) -> str:
    """Give the block `authorization`."""
    body = "".join(_user(service, services) for service in services)
    return f"{_HEAD}authorization {{\n  users = [\n{body}  ]\n}}\n"


def files() -> dict[str, str]:
    """Give the text of every file by its path in the repository."""
    return {path: users(services) for path, services in FILES.items()}


def _user(service: Service, present: Sequence[Service]) -> str:
    rights = rights_of(service, present)
    parts = [f"      publish = {_allow(rights.publish)}", f"      subscribe = {_allow(rights.subscribe)}"]
    parts += _answers(rights)
    return f"    {{nkey = ${variable(service)}, permissions = {{ # {service}\n{chr(10).join(parts)}\n    }}}}\n"


def _answers(rights: Rights) -> list[str]:
    return [f'      allow_responses = {{max = 1, expires = "{ANSWER_WITHIN_S}s"}}'] if rights.answers else []


def _allow(subjects: Sequence[str]) -> str:
    return "{allow = [\n" + "".join(f'        "{subject}"\n' for subject in subjects) + "      ]}"
