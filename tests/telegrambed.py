"""The Telegram platform as a program would hold it: the real SDK, the test server, a real database file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from servers.telegram import DEFAULT_TOKEN, TelegramServer
from servers.telegram_model import Chat as ServerChat
from sqlalchemy import Connection, create_engine, select

from delivery.model import (
    Address,
    ChatKind,
    DeliveryId,
    Inbound,
    OutgoingPart,
    PartKind,
    SendResult,
    Sent,
)
from delivery.platforms.telegram import TelegramPlatform
from delivery.platforms.telegram_book import StoredChats
from delivery.ports import AccountDown, Settled
from delivery.testing import START
from state import schema
from state.database import Database

BOT = DEFAULT_TOKEN.partition(":")[0]


class Naps:
    """A sleep that ends when the test says so, and tells how long it was to be."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._asleep: list[asyncio.Future[None]] = []
        self._changed = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        self._asleep.append(asyncio.get_running_loop().create_future())
        self._changed.set()
        await self._asleep[-1]

    def wake(self) -> None:
        for future in self._asleep:
            if not future.done():
                future.set_result(None)
        self._asleep.clear()

    async def until(self, count: int) -> list[float]:
        """Return the naps once there are `count`."""
        async with asyncio.timeout(10):
            while len(self.taken) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.taken


class Moves:
    """A settlement that notes which chats moved."""

    def __init__(self) -> None:
        self.moved: list[tuple[str, str]] = []

    def settled(self, conn: Connection, settled: Settled) -> None:
        raise AssertionError("nothing settles here")

    def chat_moved(
        self, conn: Connection, account: str, old: str, new: str, *, at: datetime, keeps_messages: bool = False
    ) -> None:
        self.moved.append((old, new))


class Heard:
    """Hears, and lets a test wait for it. `fails` raises that many times before it takes anything in."""

    def __init__(self) -> None:
        self.inbounds: list[Inbound] = []
        self.fails = 0
        self._changed = asyncio.Event()

    async def hear(self, inbound: Inbound) -> None:
        if self.fails:
            self.fails -= 1
            raise OSError("no space left")
        self.inbounds.append(inbound)
        self._changed.set()

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.inbounds]

    async def until(self, count: int) -> list[Inbound]:
        async with asyncio.timeout(10):
            while len(self.inbounds) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.inbounds


def prepare(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as conn:
        conn.exec_driver_sql("PRAGMA synchronous = OFF")
        schema.metadata.create_all(conn)
    engine.dispose()


@dataclass(kw_only=True)
class Bed:
    """One bot with its server. `bed.at` is the platform's present."""

    server: TelegramServer
    db: Database
    naps: Naps
    moves: Moves
    heard: Heard
    platform: TelegramPlatform
    at: datetime = START

    def another(self, **changes: Any) -> TelegramPlatform:
        """Make a platform as a restarted (or a second) program would."""
        book = StoredChats(
            db=self.db, account="telegram", settlement=self.moves, now=lambda: self.at, changed=lambda _: None
        )
        settings: dict[str, Any] = {
            "account": "telegram",
            "token": DEFAULT_TOKEN,
            "base_url": self.server.url,
            "workspace": None,
            "directory": book,
            "now": lambda: self.at,
            "monotonic": lambda: 0.0,
            "sleep": self.naps.sleep,
        }
        return TelegramPlatform(**(settings | changes))

    # sending

    def address(self, chat: ServerChat, **more: Any) -> Address:
        kinds = {"private": ChatKind.DM, "channel": ChatKind.CHANNEL}
        kind = ChatKind.FORUM if chat.is_forum else kinds.get(chat.type, ChatKind.GROUP)
        return Address(account="telegram", workspace=BOT, chat=str(chat.id), chat_kind=kind, **more)

    def part(self, address: Address, text: str = "3 builds failed", **more: Any) -> OutgoingPart:
        fields: dict[str, Any] = {
            "delivery_id": DeliveryId("d1"),
            "n": 1,
            "kind": PartKind.TEXT,
            "address": address,
            "payload": {"text": text, "entities": []},
            "marker": "m1",
            "intent_at": self.at,
        }
        return OutgoingPart(**(fields | more))

    def topic_part(self, address: Address, name: str = "build-health") -> OutgoingPart:
        return self.part(address, n=0, kind=PartKind.TOPIC, payload={"name": name})

    async def send(self, chat: ServerChat, text: str = "3 builds failed", **where: Any) -> SendResult:
        return await self.platform.send(self.part(self.address(chat, **where), text))

    async def sent(self, chat: ServerChat, text: str = "3 builds failed", **where: Any) -> Sent:
        result = await self.send(chat, text, **where)
        assert isinstance(result, Sent), result
        return result

    def texts(self) -> list[str]:
        return [message["text"] for message in self.server.posts() if "text" in message]

    def asked(self, method: str) -> list[dict[str, str]]:
        """Return the parameters of every call of a method."""
        return [call.params for call in self.server.calls if call.method == method]

    # hearing

    @asynccontextmanager
    async def listening(self, platform: TelegramPlatform | None = None) -> AsyncIterator["asyncio.Task[None]"]:
        """Listen while the context is open, from the first open poll on."""
        before = len(self.asked("getUpdates"))
        task = asyncio.create_task((platform or self.platform).listen(self.heard.hear))
        await self.server.changes.until(lambda: len(self.asked("getUpdates")) > before or task.done(), 10)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait((task,))
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, AccountDown):
                raise error

    async def hear_one(self) -> Inbound:
        """Return the next message that is heard."""
        return (await self.heard.until(len(self.heard.inbounds) + 1))[-1]

    async def hears(self, say: Callable[[], object]) -> Inbound:
        """Listen, let something be said, and return what was heard."""
        async with self.listening():
            say()
            heard = await self.hear_one()
            await self.server.wait_read()
            return heard

    async def rows(self, table: Any, *columns: Any) -> list[tuple[Any, ...]]:
        return await self.db.read(lambda conn: [tuple(row) for row in conn.execute(select(*columns or (table,)))])


@asynccontextmanager
async def telegram_bed(path: Path) -> AsyncIterator[Bed]:
    """Run a server, open a database, and connect a platform."""
    db = Database.open(path / "state.db", prepare=prepare)
    async with TelegramServer(now=START.timestamp) as server:
        bed = Bed(server=server, db=db, naps=Naps(), moves=Moves(), heard=Heard(), platform=None)  # type: ignore[arg-type]  # made from the bed
        bed.platform = bed.another()
        await bed.platform.connect()
        try:
            yield bed
        finally:
            await bed.platform.close()
            db.close()
