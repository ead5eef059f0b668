"""What is done about each update before it may be confirmed."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from delivery.platforms.telegram_book import ChatBook
from delivery.platforms.telegram_memory import Memory
from delivery.platforms.telegram_places import Json
from delivery.platforms.telegram_updates import Me, News, read_update
from delivery.ports import Chat, Hear

log = logging.getLogger(__name__)


class Hearing:
    """Reads updates, keeps the chat book, and hands on what people say. `press` answers a pressed button."""

    def __init__(
        self, *, account: str, book: ChatBook, memory: Memory, press: Callable[[str], Awaitable[object]]
    ) -> None:
        self._account = account
        self._book = book
        self._memory = memory
        self._press = press
        self._seen: dict[tuple[str, str], Chat] = {}
        self._reachable: set[str] = set()

    async def chats(self) -> Sequence[Chat]:
        """Return every chat that the bot has met, in this process or an earlier one."""
        for chat in await self._book.known():
            self._seen.setdefault((chat.chat, chat.topic), chat)
        return tuple(self._seen.values())

    async def see(self, chat: Chat) -> None:
        """Note a chat that is new, or has a new name."""
        if self._seen.get((chat.chat, chat.topic)) != chat:
            await self._book.seen(chat)
            self._seen[chat.chat, chat.topic] = chat

    async def has_moved(self, old: str, new: str) -> None:
        """Note that a group became a supergroup."""
        await self._book.moved(old, new)
        self._seen.pop((old, ""), None)

    def is_lost(self, chat: str) -> None:
        """Take note that a post there was refused: the next sign of life is news again."""
        self._reachable.discard(chat)

    async def take(self, update: Json, me: Me, hear: Hear) -> None:
        """Return once all that an update tells is durable; one that cannot be read is logged and let go.

        Raises what the book or `hear` raises. Taking it again is harmless.
        """
        try:
            news = read_update(update, me, self._memory.copy_of)
        except Exception as error:  # noqa: BLE001 - around one inbound: one that cannot be read does not stop the others
            kinds = ", ".join(sorted(name for name in update if name != "update_id"))
            log.warning(
                "An update that cannot be read is skipped.",
                extra={
                    "action": "update_unreadable",
                    "account": self._account,
                    "update": update["update_id"],
                    "kinds": kinds,
                    "reason": type(error).__name__,
                },
            )
            return
        await self._follow(news)
        await self._hand_on(news, hear)

    async def _follow(self, news: News) -> None:
        if news.moved is not None:
            await self.has_moved(*news.moved)
        for chat in news.chats:
            await self.see(chat)
        if news.gone is not None:
            await self._book.gone(*news.gone)
            self.is_lost(news.gone[0])
        if news.back is not None:
            await self._is_reachable(news.back)
        if news.opened is not None:
            self._memory.topic_was_opened(news.opened)
        if news.copied is not None:
            self._memory.copies.put(*news.copied)
        if news.pressed is not None:
            await self._press(news.pressed)

    async def _hand_on(self, news: News, hear: Hear) -> None:
        inbound = news.inbound
        if inbound is None or self._memory.posted.get((inbound.address.chat, inbound.address.message or "")):
            return
        await self._is_reachable(inbound.address.chat)
        await hear(inbound)

    async def _is_reachable(self, chat: str) -> None:
        if chat not in self._reachable:
            await self._book.back(chat)
            self._reachable.add(chat)
