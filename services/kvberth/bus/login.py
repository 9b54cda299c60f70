"""How a connection proves who it is, and that the server is the right one: nkey and TLS.

Reads two files at every connect, so that a key or certificate that was replaced holds from the next connect on. A seed
never leaves this module but to sign; no error names it.
"""

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kvberth.bus.errors import BusError
from kvberth.bus.settings import BusSettings

_MOST_BYTES = 1024
_SECURE = frozenset({"tls", "wss"})


class CannotSignIn(BusError):  # noqa: N818 - as in errors.py
    """A key or certificate can't be used; the message says which file and why, never what it holds."""


def options(settings: BusSettings) -> dict[str, Any]:
    """Give what nats-py's `connect` takes for it.

    Raises:
        CannotSignIn: a file can't be read, or holds something else.
    """
    found: dict[str, Any] = {}
    if settings.nkey_file is not None:
        found["nkeys_seed_str"] = _seed(settings.nkey_file)
    if settings.tls_ca is not None or urlsplit(settings.url).scheme in _SECURE:
        found["tls"] = _context(settings.tls_ca)
    return found


def public_key(file: Path) -> str:
    """Give the public key that belongs to the seed in a file.

    Raises:
        CannotSignIn: the file can't be read, or holds no seed of a user.
    """
    return _public(file, _read(file, "the nkey seed"))


def _seed(file: Path) -> str:
    text = _read(file, "the nkey seed")
    _public(file, text)
    return text


def _public(file: Path, seed: str) -> str:
    import nkeys

    try:
        pair = nkeys.from_seed(bytearray(seed.encode()))
        public = bytes(pair.public_key).decode()
        pair.wipe()
    except Exception:  # noqa: BLE001 - nkeys fails in many ways at what is no seed, and its errors may name parts of it
        public = ""
    if not public.startswith("U"):
        raise CannotSignIn(f"{file} holds no seed of a user's nkey; it would be one line that begins with SU") from None
    return public


def _context(file: Path | None) -> ssl.SSLContext:
    if file is None:
        return ssl.create_default_context()
    text = _read(file, "the certificates of the NATS server's authority", 1024 * _MOST_BYTES, "utf-8")
    # Bundles name their authorities between the certificates, in any language; ssl takes ASCII alone.
    found = text.encode("ascii", "replace").decode("ascii")
    if not found:  # which ssl would take for "those of this machine"
        raise CannotSignIn(f"{file} holds no certificates; they would be PEM")
    try:
        return ssl.create_default_context(cadata=found)
    except ssl.SSLError as error:
        raise CannotSignIn(f"{file} holds no certificates; they would be PEM ({error.reason})") from error


def _read(file: Path, what: str, most_bytes: int = _MOST_BYTES, encoding: str = "ascii") -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(most_bytes + 1)
    except OSError as error:
        raise CannotSignIn(f"{what} can't be read from {file} ({error.strerror})") from error
    if len(data) > most_bytes:
        raise CannotSignIn(f"{file} is longer than {most_bytes} bytes; {what} would be shorter")
    try:
        return data.decode(encoding).strip()
    except UnicodeDecodeError:
        raise CannotSignIn(f"{file} is no text; {what} would be one") from None
