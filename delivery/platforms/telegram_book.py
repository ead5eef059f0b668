"""What is remembered of a Telegram account's chats: the platform lists none, a bot knows what it has met."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection

from delivery.chats import chat_is_back, chat_is_gone, follow_move
from delivery.directory import DIRECTORY, known_chats
from delivery.ports import Chat, Settlement
from delivery.rows import DeliverySummary, upsert
from state.clock import Now
from state.database import Database


class ChatBook(Protocol):
    """Each method returns once what it was told is durable, and raises StateError if it could not be stored."""

    async def known(self) -> Sequence[Chat]:
        """Return every chat (and topic) of the account that was ever met."""

    async def seen(self, chat: Chat) -> None:
        """Remember a chat, or its new name."""

    async def gone(self, chat: str, reason: str) -> None:
        """Remember that nothing can be posted there (blocked, removed), until it is back."""

    async def back(self, chat: str) -> None:
        """Remember that a chat can be posted to (again)."""

    async def moved(self, old: str, new: str) -> None:
        """Follow a group that became a supergroup: what is to be sent, its flat key and its sessions."""


class StoredChats:
    """The chat book of one account, in the database. `changed` is told of deliveries that a move made redundant,
    `followed` of (account, old, new) once a move is durable."""

    def __init__(
        self,
        *,
        db: Database,
        account: str,
        settlement: Settlement,
        now: Now,
        changed: Callable[[DeliverySummary], None],
        followed: Callable[[str, str, str], None] = lambda account, old, new: None,
    ) -> None:
        self._db = db
        self._account = account
        self._settlement = settlement
        self._now = now
        self._changed = changed
        self._followed = followed

    async def known(self) -> Sequence[Chat]:
        return await self._db.read(lambda conn: known_chats(conn, self._account))

    async def seen(self, chat: Chat) -> None:
        at = self._now()
        spot = {"account": self._account, "chat": chat.chat, "topic": chat.topic}

        def store(conn: Connection) -> None:
            upsert(conn, DIRECTORY, spot, {}, name=chat.name, kind=chat.kind, updated_at=at)

        await self._db.write(store)

    async def gone(self, chat: str, reason: str) -> None:
        await self._db.write(lambda conn: chat_is_gone(conn, self._account, chat, reason))

    async def back(self, chat: str) -> None:
        await self._db.write(lambda conn: chat_is_back(conn, self._account, chat))

    async def moved(self, old: str, new: str) -> None:
        at = self._now()
        dropped = await self._db.write(
            lambda conn: follow_move(conn, self._account, old, new, at=at, settlement=self._settlement)
        )
        self._followed(self._account, old, new)
        for summary in dropped:
            self._changed(summary)
