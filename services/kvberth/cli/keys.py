"""`kvberth keys`: makes the keys that services sign in with at a NATS server that asks for them.

Writes one file per service with its seed, one with all public keys for the server, and the password of several servers
among each other. Changes nothing that is there.
"""

import secrets
import stat
from pathlib import Path
from typing import Annotated

import typer

from kvberth.bus.keys import new_key
from kvberth.bus.login import CannotSignIn, public_key
from kvberth.cli.errors import CommandError
from kvberth.service.files import write_whole
from kvberth_schemas.natsconf import variable
from kvberth_schemas.rights import ON_BARE, ON_KUBERNETES
from kvberth_schemas.subjects import Service

PUBLIC = "public.env"
"""Name of the file with `KVBERTH_NKEY_<SERVICE>=<public key>` lines."""
PEERS = "peers.env"
"""Name of the file with the password that several servers show each other; for Kubernetes only."""


def seed_file(service: str) -> str:
    """Name the file with a service's seed."""
    return f"{service}.seed"


def keys(
    folder: Annotated[Path, typer.Argument(help="Where they are written; made if it is missing.")],
    bare: Annotated[bool, typer.Option("--bare", help="For machines without Kubernetes, as compose.")] = False,
) -> None:
    """Make the keys with which services sign in at NATS: secret seeds, and their public keys for the server.

    Keys that are there already are kept, so that a second run completes the first. Delete the folder for new ones.
    """
    services = ON_BARE if bare else ON_KUBERNETES
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            raise CommandError(f"{folder} is open to others; close it with 'chmod 700 {folder}', or name a new folder")
        found = {service: _key(folder, service) for service in services}
        found |= {service: public_key(folder / seed_file(service)) for service in _there(folder)}  # of the other kind
        lines = [f"{variable(service)}={key}" for service, key in found.items()]
        write_whole(folder / PUBLIC, "\n".join(lines) + "\n")
        if not bare and not (folder / PEERS).exists():
            # A letter first: the server reads the value as it reads its configuration, where 12e5 is a number.
            write_whole(folder / PEERS, f"KVBERTH_NATS_PEERS=p{secrets.token_hex(32)}\n")
    except OSError as error:
        place = error.filename or folder
        raise CommandError(f"{place} can't be written: {error.strerror}; name another folder") from error
    except CannotSignIn as error:
        raise CommandError(f"{error}; delete it, and it is made anew") from error
    also = "" if bare else f" and {PEERS}"
    typer.echo(f"{len(lines)} keys are in {folder}: the *.seed files{also} are secret, {PUBLIC} is the server's")


def _there(folder: Path) -> list[Service]:
    return [service for service in Service if (folder / seed_file(service)).exists()]


def _key(folder: Path, service: str) -> str:
    """Give the public key of a service's seed, made if there is none yet."""
    file = folder / seed_file(service)
    try:
        with file.open("x", encoding="ascii") as opened:
            # Readable by all: the folder keeps others out, and in a container the reader is another user than ours.
            file.chmod(0o444)
            key = new_key()
            opened.write(f"{key.seed}\n")
            return key.public
    except FileExistsError:
        return public_key(file)
