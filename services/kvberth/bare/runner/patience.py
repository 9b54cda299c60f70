"""How long to wait between looks at something that should happen soon, and when to say that it does not."""

import asyncio


class Patience:
    """Pauses that double, and one moment at which it has taken too long."""

    def __init__(self, first_s: float, longest_s: float, late_after_s: float) -> None:
        """All in seconds; `late_after_s` counts from now."""
        self._pause_s = first_s
        self._longest_s = longest_s
        self._late_at: float | None = asyncio.get_running_loop().time() + late_after_s

    async def pause(self) -> bool:
        """Wait before the next look; True once, when it has just become late."""
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, self._longest_s)
        if self._late_at is None or asyncio.get_running_loop().time() < self._late_at:
            return False
        self._late_at = None
        return True
