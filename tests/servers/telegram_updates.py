"""The queue behind getUpdates, and a way to wait for something to happen.

Source: https://core.telegram.org/bots/api#getting-updates.
"""

import asyncio
from collections.abc import Callable, Sequence

from servers.telegram_model import BotApiError, Json

_UNASKED = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Kinds that come only to a bot that names them in allowed_updates."""


class Changes:
    """Wakes those who wait for a condition whenever something changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def touch(self) -> None:
        """Say that something changed."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Return True as soon as the condition holds, False if it does not within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await self._event.wait()
        except TimeoutError:
            return condition()
        return True


class Updates:
    """Updates by rising id, kept until a later offset acknowledges them. One poller at a time: a newer
    getUpdates ends the older one with 409.
    """

    def __init__(self, changes: Changes, *, first_id: int = 500_000_001) -> None:
        self.everything: list[Json] = []
        self.pending: list[Json] = []
        self.allowed: frozenset[str] | None = None
        self.webhook_url = ""
        self._changes = changes
        self._next_id = first_id
        self._poll = 0

    def add(self, kind: str, payload: Json) -> Json | None:
        """Queue an update; None if the bot did not ask for this kind."""
        wanted = kind in self.allowed if self.allowed else kind not in _UNASKED
        if not wanted:
            return None
        update = {"update_id": self._next_id, kind: payload}
        self._next_id += 1
        self.everything.append(update)
        self.pending.append(update)
        self._changes.touch()
        return update

    def redeliver(self, update: Json, *, update_id: int | None = None) -> Json:
        """Queue the same update again, under its old id or another one."""
        again = update if update_id is None else update | {"update_id": update_id}
        self.pending.append(again)
        self._changes.touch()
        return again

    def jump(self, next_id: int) -> None:
        """Go on with another id, as the platform does after an idle week."""
        self._next_id = next_id

    def expire(self) -> int:
        """Drop what nobody fetched, as the platform does after 24 hours; return how many."""
        lost, self.pending = len(self.pending), []
        return lost

    async def get(self, *, offset: int, limit: int, timeout: float, allowed: Sequence[str] | None) -> list[Json]:
        """Answer one getUpdates. Raises BotApiError 409 when a later poll or a webhook took over."""
        if self.webhook_url:
            raise BotApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first",
            )
        if allowed is not None:
            self.allowed = frozenset(allowed) or None
        self._acknowledge(offset)
        mine = self.end_poll()
        await self._changes.until(lambda: self._poll != mine or bool(self.pending), timeout)
        if self._poll != mine:
            raise BotApiError(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            )
        return self.pending[:limit]

    def end_poll(self) -> int:
        """End the open poll, if there is one, and return the number of the next."""
        self._poll += 1
        self._changes.touch()
        return self._poll

    def _acknowledge(self, offset: int) -> None:
        if offset > 0:
            self.pending = [update for update in self.pending if update["update_id"] >= offset]
        elif offset < 0:
            self.pending = self.pending[offset:]
