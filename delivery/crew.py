"""One task per key, and nothing that came meanwhile is missed."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Work = Callable[[Key], Awaitable[datetime | None]]


class Crew(Generic[Key]):
    """Runs `work(key)` for each key, one task at a time per key; different keys run side by side.

    `work` returns when the key is due again, None for "when somebody says so". `work` must not raise.
    """

    def __init__(self, work: Work[Key], done: Callable[[], None]) -> None:
        self._work = work
        self._done = done
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._again: set[Key] = set()
        self._due: dict[Key, datetime] = {}

    def start(self, key: Key) -> None:
        """See to a key now; if it is being seen to, look again afterwards."""
        if key in self._tasks:
            self._again.add(key)
        else:
            self._tasks[key] = asyncio.create_task(self._see_to(key))

    def start_due(self, at: datetime) -> None:
        """See to every key whose time has come."""
        for key in [key for key, due in self._due.items() if due <= at]:
            self.start(key)

    def next_due(self) -> datetime | None:
        """Return when the next waiting key is due."""
        return min((due for key, due in self._due.items() if key not in self._tasks), default=None)

    async def finish(self) -> None:
        """Wait until no task runs."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks.values()))

    async def _see_to(self, key: Key) -> None:
        try:
            while True:
                self._again.discard(key)
                self._due.pop(key, None)
                due = await self._work(key)
                if key not in self._again:
                    break
        finally:
            del self._tasks[key]
        if due is not None:
            self._due[key] = due
        self._done()
