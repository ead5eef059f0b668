"""Watches that the database is still the one that was opened, and that what it says is stored is stored."""

import asyncio
import logging
from typing import NoReturn

from state.clock import Sleep
from state.database import Database

log = logging.getLogger(__name__)

LOOK_EVERY = 2.0  # seconds between two looks while nobody writes


class StateTrust:
    """Ends the daemon when its database was replaced, or when it cannot be told what a commit stored."""

    def __init__(self, db: Database, sleep: Sleep) -> None:
        self._db = db
        self._sleep = sleep

    async def run(self) -> NoReturn:
        """Look until cancelled, at once after a write that found it out. Raises what `Database.lost` says."""
        loop, found = asyncio.get_running_loop(), asyncio.Event()
        unsubscribe = self._db.on_lost(lambda: loop.call_soon_threadsafe(found.set))
        try:
            while (error := await asyncio.to_thread(lambda: self._db.lost)) is None:
                await self._wait(found)
        finally:
            unsubscribe()
        log.critical("Nothing can be stored any more: %s", error, extra={"action": "state_lost"})
        raise error

    async def _wait(self, found: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(found.wait()), asyncio.ensure_future(self._sleep(LOOK_EVERY))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
