"""What vineyardd refuses, as errors: the same for both clients. Pure."""

from kvberth.vineyard import wire
from kvberth.vineyard.errors import ObjectMissing, ObjectNotSealed, RequestRefused, StoreFull, VineyardError

_KINDS: dict[int, type[VineyardError]] = {
    wire.CODE_OBJECT_MISSING: ObjectMissing,
    wire.CODE_NOT_SEALED: ObjectNotSealed,
    wire.CODE_NOT_ENOUGH_MEMORY: StoreFull,
}


def refusal(path: str, refused: wire.RefusedError) -> VineyardError:
    """Gives the daemon's refusal its class."""
    kind = _KINDS.get(refused.code, RequestRefused)
    return kind(path, f"vineyardd refused with code {refused.code}: {refused.message}")


def check_size(path: str, size: int) -> None:
    """Raises StoreFull where asking for a blob of that size would kill the daemon; the true answer is known."""
    if size > wire.MAX_SIZE:
        raise StoreFull(path, f"no store has room for a blob of {size} bytes")
