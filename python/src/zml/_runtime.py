"""Clock, chance and sleep: the only sources of what a call can't compute. Tests put their own in their place."""

from __future__ import annotations

import random
import time


class Runtime:
    """Seconds everywhere."""

    def monotonic(self) -> float:
        """For durations and deadlines."""
        return time.monotonic()

    def now(self) -> float:
        """Wall time since the epoch, for dates in headers."""
        return time.time()

    def chance(self) -> float:
        """0 to 1, for jitter."""
        return random.random()

    def sleep(self, seconds: float) -> None:
        """The wait before a retry."""
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """The same in an event loop."""
        # not at the top: httpx itself imports it when it is needed
        import anyio

        await anyio.sleep(seconds)
