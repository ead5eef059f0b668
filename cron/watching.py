"""Wait for one delivery to end: what `hermes-cron send` does."""

import asyncio
from typing import Any

from cron import views
from state.database import Database


class DeliveryWatch:
    """Is told of changed deliveries, and lets those go on who wait for one."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[str, asyncio.Event] = {}

    def changed(self, delivery_id: str) -> None:
        """Be told that a delivery ended."""
        waiting = self._waiting.get(delivery_id)
        if waiting is not None:
            waiting.set()

    async def ended(self, delivery_id: str) -> dict[str, Any]:
        """Return the delivery, in the shape that `runs` shows, when it has ended."""
        waiting = self._waiting.setdefault(delivery_id, asyncio.Event())
        try:
            while True:
                shown = await self._db.read(lambda conn: views.one_delivery(conn, delivery_id))
                if shown is None or shown["state"] not in ("pending", "sending"):
                    return shown or {}
                await waiting.wait()
                waiting.clear()
        finally:
            self._waiting.pop(delivery_id, None)
