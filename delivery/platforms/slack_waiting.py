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

    async def turn(self) -> None:
        """Wait until one more call is within the rate, and count it."""
        calls = self._calls
        while len(calls) == calls.maxlen and (wait := calls[0] + 60.0 - self._monotonic()) > 0:
            await self._sleep(wait)
        calls.append(self._monotonic())

    def refuse_for(self, seconds: float) -> None:
        """Remember how long Slack wants to be left alone."""
        self._not_before = max(self._not_before, self._monotonic() + seconds)

    @property
    def is_refused(self) -> bool:
        """Whether Slack still wants to be left alone."""
        return self._monotonic() < self._not_before
