"""Time and ids as one injectable object, so that tests own both."""

import time
import uuid
from datetime import UTC, datetime


class Clock:
    """The real clock and random ids."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def new_id(self) -> str:
        """An id that no other message of any writer has."""
        return uuid.uuid4().hex
