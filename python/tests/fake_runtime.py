"""A clock that moves when somebody sleeps."""

from __future__ import annotations

import time
from typing import List, Optional, Union

import zml
from zml._runtime import Runtime


class FakeRuntime(Runtime):
    """Real time, plus what was slept; sleeping takes no time."""

    def __init__(self, *, chance: float = 0.5, now: Optional[float] = None) -> None:
        self.waits: List[float] = []
        self._chance = chance
        self._now = now

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.waits)

    def now(self) -> float:
        return (time.time() if self._now is None else self._now) + sum(self.waits)

    def chance(self) -> float:
        return self._chance

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.waits.append(seconds)


def put(runtime: Runtime, client: Union[zml.ZML, zml.AsyncZML]) -> None:
    """Gives a client this clock."""
    client._endpoints.runtime = runtime
    client._io._runtime = runtime
