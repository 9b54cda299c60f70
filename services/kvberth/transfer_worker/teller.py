"""Says on the bus what became of blocks, at most once a second, and only when the last word is out.

A bus that is away stops nothing and loses no count: the next word tells more. Decides nothing.
"""

import asyncio
import math
import time
from collections.abc import Callable

from kvberth.bus import Bus
from kvberth.transfer_worker.account import Account
from kvberth.transfer_worker.moment import Snapshot
from kvberth_schemas import subjects

EVERY_S = 1.0


async def tell(bus: Bus, account: Account, read: Callable[[], Snapshot]) -> None:
    """Look and tell, until cancelled."""
    whose = account.whose
    address = (whose.node, whose.namespace, whose.kvcache)
    while True:
        account.look(read(), time.monotonic())
        if not bus.logs_waiting:
            if (done := account.transfer()) is not None:
                await bus.publish_log(subjects.transfer(*address), done, tried_for_s=math.inf)
            if (there := account.blocks()) is not None:
                await bus.publish_log(subjects.blocks(*address), there, tried_for_s=math.inf)
        await asyncio.sleep(EVERY_S)
