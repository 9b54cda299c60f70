"""Answering for what was stored: a receipt is given only after the daemon has answered, later than the publishing.

Memory stays readable and writable when its daemon is dead or stopped, so a put alone proves nothing.
"""

from collections.abc import Callable, Iterable

from kvberth.store.blockstore import BlockStore
from kvberth.store.errors import EpochEnded
from kvberth.store.layout.rings import Outcome
from kvberth.vineyard import VineyardError


def put_all(
    store: BlockStore, layout: int, blocks: Iterable[tuple[bytes, bytes | memoryview]], check: Callable[[], None]
) -> list[Outcome]:
    """Puts a batch of (key, bytes) and gives one receipt for each.

    `check` asks the daemon (`VineyardMemory.check`). Where it is gone every block is dropped(no_cache); where it gives
    no answer what was published is taken out again, and dropped(degraded).
    """
    offered = list(blocks)
    try:
        outcomes = [store.put(layout, key, data) for key, data in offered]
        if Outcome.STORED in outcomes or Outcome.PRESENT in outcomes:
            check()
    except EpochEnded:
        outcomes = [Outcome.NO_CACHE] * len(offered)
    except VineyardError:
        new = [key for (key, _), outcome in zip(offered, outcomes, strict=True) if outcome is Outcome.STORED]
        store.remove(new)
        outcomes = [outcome if outcome.dropped else Outcome.DEGRADED for outcome in outcomes]
    store.answered(outcomes)
    return outcomes
