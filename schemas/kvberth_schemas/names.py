"""Encodes names of Kubernetes objects into single NATS subject tokens, and back.

A token holds only ``[A-Za-z0-9_=-]``: every other byte of the name's UTF-8 form becomes ``=XX``. Node names hold dots
(``ip-10-0-0-1.ec2.internal``), and each dot would be a token of its own.
"""

import re

NONE = "-"
"""The token that stands for "no such part" (a pod's subject names no node)."""

_EMPTY = "="
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]|=[0-9A-F]{2})+|=")


def encode(name: str) -> str:
    """Give the token of ``name``; the empty name is ``=``, and a name ``-`` is never the token of "none"."""
    if name == "":
        return _EMPTY
    if name == NONE:
        return "=2D"
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in name.encode())


def decode(token: str) -> str:
    """Give the name of a token that `encode` made.

    Raises:
        ValueError: the token holds other characters, or is no encoding of any name.
    """
    if token == _EMPTY:
        return ""
    if token == NONE or not _TOKEN.fullmatch(token):
        raise ValueError(f"'{token}' is no encoded name; names are encoded as [A-Za-z0-9_-] and =XX")
    raw = re.sub(r"=([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), token).encode("latin-1")
    name = raw.decode()
    if encode(name) != token:
        raise ValueError(f"'{token}' is not the one encoding of '{name}', which is '{encode(name)}'")
    return name
