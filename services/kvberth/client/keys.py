"""Under which key a block is stored: never under the engine's own, so that no other model's block can be taken for it.

The engine's key (32 bytes) is hashed with its fingerprint, which names everything that bytes of a block depend on.
Where an engine has no keys of its own, `chain` gives some: each stands for its tokens and for all tokens before them.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

KEY_BYTES = 32


def fingerprint_of(facts: Mapping[str, str | int]) -> bytes:
    """The digest of what an engine's blocks depend on: weights, dtypes, layout, sizes, hash algorithm and seed."""
    plain = json.dumps(dict(facts), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(plain.encode(), digest_size=KEY_BYTES).digest()


class Namespace:
    """The keys of one engine; one with another `reset` word has other keys for the same blocks.

    All ranks of an engine have the same keys, whatever the regions of their shards: then only their number counts.
    """

    def __init__(self, fingerprint: bytes, regions: Sequence[int], reset: bytes = b"", shards: int = 1) -> None:
        blocks = repr(tuple(regions)) if shards == 1 else f"{shards} shards"
        cut = hashlib.blake2b(blocks.encode() + reset, digest_size=32).digest()
        self._base = hashlib.blake2b(cut, key=fingerprint, digest_size=KEY_BYTES)

    def stored(self, key: bytes) -> bytes:
        """The key in the store; raises ValueError where the engine's is not 32 bytes long."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key of a block has {KEY_BYTES} bytes, this one {len(key)}")
        digest = self._base.copy()
        digest.update(key)
        return digest.digest()


def chain(tokens: Sequence[int], block_tokens: int, salt: bytes = b"") -> list[bytes]:
    """Keys of all full blocks of a sequence of tokens; equal beginnings have equal keys."""
    keys, before = [], hashlib.blake2b(salt, digest_size=KEY_BYTES).digest()
    for start in range(0, len(tokens) - block_tokens + 1, block_tokens):
        block = ",".join(map(str, tokens[start : start + block_tokens]))
        before = hashlib.blake2b(block.encode(), key=before, digest_size=KEY_BYTES).digest()
        keys.append(before)
    return keys
