"""Makes nkeys: the seed that a service keeps, and the public key that the NATS server is told."""

import os
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Key:
    """A user's nkey."""

    seed: str = field(repr=False)
    public: str


def new_key(entropy: bytes | None = None) -> Key:
    """Make a key from 32 random bytes."""
    import nkeys

    seed = nkeys.encode_seed(entropy or os.urandom(32), nkeys.PREFIX_BYTE_USER)
    pair = nkeys.from_seed(bytearray(seed))
    public: bytes = pair.public_key
    pair.wipe()
    return Key(bytes(seed).decode(), bytes(public).decode())
