"""Waiting with a bound, and keeping within a rate, on clocks that the caller gives."""

import asyncio
from collections import deque
from collections.abc import Awaitable

from state.clock import Monotonic, Sleep


async def first_of(*awaitables: Awaitable[object]) -> None:
    """Return when the first has ended; the others are cancelled and have ended, too. What they return is lost."""
    tasks = {asyncio.ensure_future(one) for one in awaitables}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Budget:
    """At most so many calls in any minute, and none before Slack allows them again."""

    def __init__(self, per_minute: int, monotonic: Monotonic, sleep: Sleep) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._calls: deque[float] = deque(maxlen=per_minute)
        self._not_before = 0.0

    async def turn(self, until: float) -> float:
        """Wait until one more call is within the rate and allowed; count it and return 0.

        If that is not before the instant `until` (of `monotonic`), return at once how many seconds are missing to
        the call; it does not count.
        """
        while (wait := self._allowed_at() - self._monotonic()) > 0:
            if self._monotonic() + wait > until:
                return wait
            await self._sleep(wait)
        self._calls.append(self._monotonic())
        return 0.0

    def refuse_for(self, seconds: float) -> None:
        """Remember how long Slack wants to be left alone."""
        self._not_before = max(self._not_before, self._monotonic() + seconds)

    def _allowed_at(self) -> float:
        calls = self._calls
        return max(self._not_before, calls[0] + 60.0) if len(calls) == calls.maxlen else self._not_before
