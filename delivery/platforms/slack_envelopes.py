"""What a socket brings, one envelope after the other: read it, have it stored, then acknowledge it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from delivery.model import Inbound
from delivery.platforms.slack_calls import Json
from delivery.platforms.slack_waiting import first_of
from delivery.ports import Hear
from state.clock import Sleep

log = logging.getLogger(__name__)

LAST_WAIT = 3.0
"""Seconds that messages which are being stored get at the end; Slack waits no longer either."""

Read = Callable[[str, Json], Awaitable[Inbound | None]]
"""Reads an envelope's payload, by the envelope's type; None: nothing to store."""


class Envelopes:
    """Handles the envelopes of every socket of one account, in the order in which they came."""

    def __init__(self, *, account: str, read: Read, hear: Hear, sleep: Sleep) -> None:
        self._account = account
        self._read = read
        self._hear = hear
        self._sleep = sleep
        self._in_order = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()
        self._is_over = False

    async def take(self, kind: str, payload: Json, acknowledge: Callable[[], Awaitable[None]]) -> None:
        """Handle one envelope. What could not be stored, or comes after the end, is not acknowledged."""
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            if not self._is_over and await self._is_stored(kind, payload):
                await self._acknowledge(acknowledge)
        finally:
            self._running.discard(task)

    async def _is_stored(self, kind: str, payload: Json) -> bool:
        try:
            async with self._in_order:  # reading may ask Slack for a name; the next one waits its turn
                inbound = await self._read(kind, payload)
            if inbound is not None:
                await self._hear(inbound)
        except Exception as error:  # noqa: BLE001 - around one inbound
            log.warning(
                "A message could not be stored; Slack will send it again.",
                extra={"action": "inbound_not_stored", "account": self._account, "reason": type(error).__name__},
            )
            return False
        return True

    async def _acknowledge(self, acknowledge: Callable[[], Awaitable[None]]) -> None:
        try:
            await acknowledge()
        except Exception as error:  # noqa: BLE001 - whatever it is, the socket is gone
            log.info(
                "A message is stored but could not be acknowledged; Slack will send it again.",
                extra={"action": "ack_failed", "account": self._account, "reason": type(error).__name__},
            )

    async def finish(self) -> None:
        """Take nothing new, let what is being stored be stored and acknowledged, then cut the rest off."""
        self._is_over = True
        running = self._running - {asyncio.current_task()}
        if running:
            await first_of(asyncio.wait(running), self._sleep(LAST_WAIT))
            for task in running:
                task.cancel()
            await asyncio.wait(running)
