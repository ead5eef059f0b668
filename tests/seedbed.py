"""What tests of seeding stand on: a real database file, real outbox rows, a chat to post into, a clock to move."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, create_engine, select

from delivery import outbox
from delivery.model import (
    Address,
    Author,
    ChatKind,
    DeliveryId,
    DeliveryKind,
    Inbound,
    PartKind,
    Receipt,
    Surface,
)
from delivery.outbox import NewDelivery
from delivery.ports import Opening
from delivery.render.parts import RenderedPart
from seeding.inbox import Inbox
from seeding.model import ChatRules, Question, Turn
from seeding.outgoing import Replies
from seeding.place import Placer
from seeding.questions import transcript_of
from seeding.responder import Responder
from seeding.router import Router
from seeding.seeder import Seeder
from state import schema
from state.database import Database

START = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


class Clock:
    """An instant that only tests move; sleeping moves it too."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - START).total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        await asyncio.sleep(0)

    def advance(self, **delta: float) -> datetime:
        self.at += timedelta(**delta)
        return self.at


class Rules:
    """A rulebook with one rule for all, or one per chat."""

    def __init__(self, default: ChatRules | None = None, **chats: ChatRules) -> None:
        self.default = default or ChatRules(is_delivered_to=True)
        self.chats = chats

    def for_chat(self, address: Address) -> ChatRules:
        return self.chats.get(address.chat, self.default)


def prepare(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    schema.metadata.create_all(engine)
    engine.dispose()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Database]:
    database = Database.open(path.resolve() / "state.db", prepare=prepare)
    try:
        yield database
    finally:
        database.close()


def place(
    chat: str = "C1",
    *,
    kind: ChatKind = ChatKind.CHANNEL,
    account: str = "slack",
    workspace: str = "T1",
    topic: str | None = None,
    message: str | None = None,
    root: str | None = None,
) -> Address:
    return Address(
        account=account,
        workspace=workspace,
        chat=chat,
        chat_kind=kind,
        topic=topic,
        message=message,
        root=root,
    )


_numbers = itertools.count(1)


def queue(
    conn: Connection,
    at: datetime,
    address: Address,
    *texts: str,
    job: str = "build-health",
    surface: Surface = Surface.FLAT,
    continues: bool = True,
    opening: PartKind | None = None,
    kind: DeliveryKind = DeliveryKind.BRIEF,
    name: str | None = None,
) -> DeliveryId:
    """Enqueue a delivery in the real outbox."""
    new = NewDelivery(
        id=DeliveryId(name or f"d{next(_numbers)}"),
        kind=kind,
        run_id=None,
        inbound_id=None,
        session_id=None,
        job=job,
        target=f"{address.account}:{address.chat}",
        account=address.account,
        surface=surface,
        continues=continues,
        address=address,
        parts=tuple(RenderedPart(payload={"text": text}, text=text) for text in texts),
        opening=None if opening is None else Opening(kind=opening, payload={"text": job}, text=job),
    )
    outbox.enqueue(conn, [new], at=at)
    return new.id


def arrive(conn: Connection, seeder: Seeder, delivery: str, n: int, address: Address, *, at: datetime) -> None:
    """Let the platform confirm one part, the way the outbox records it."""
    done = outbox.confirm_part(conn, delivery, n, Receipt(address=address, at=at), at=at, settlement=seeder)
    assert done.owed is None, done.owed


def post(
    conn: Connection, seeder: Seeder, at: datetime, address: Address, *texts: str, job: str = "build-health"
) -> tuple[DeliveryId, list[str]]:
    """Post a flat brief whose parts all arrive; return its id and the ids of its messages."""
    delivery = queue(conn, at, address, *texts, job=job)
    messages = []
    for n, _ in enumerate(texts, start=1):
        messages.append(f"{next(_numbers)}.000100")
        landed = Address(
            account=address.account,
            workspace=address.workspace,
            chat=address.chat,
            chat_kind=address.chat_kind,
            topic=address.topic,
            message=messages[-1],
            root=address.root,
        )
        arrive(conn, seeder, delivery, n, landed, at=at)
    return delivery, messages


def said(
    text: str,
    at: datetime,
    *,
    address: Address | None = None,
    message: str | None = None,
    who: str = "U1",
    name: str = "Kim",
    is_bot: bool = False,
    **more: object,
) -> Inbound:
    """Return a message that a person wrote."""
    where = address or place()
    named = Address(
        account=where.account,
        workspace=where.workspace,
        chat=where.chat,
        chat_kind=where.chat_kind,
        topic=where.topic,
        root=where.root,
        message=message or f"{next(_numbers)}.000100",
    )
    return Inbound(address=named, author=Author(id=who, name=name, is_bot=is_bot), text=text, at=at, **more)  # type: ignore[arg-type]


def delivery_row(conn: Connection, delivery: str):  # type: ignore[no-untyped-def]
    return conn.execute(select(schema.deliveries).where(schema.deliveries.c.id == delivery)).one()


def texts(conn: Connection, session: str | None) -> list[str]:
    assert session is not None
    return [turn.text for turn in transcript_of(conn, session)]


def turns(conn: Connection, session: str) -> tuple[Turn, ...]:
    return transcript_of(conn, session)


@contextlib.asynccontextmanager
async def running(*coroutines: object) -> AsyncIterator[None]:
    """Run loops in the background until the block ends."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]  # type: ignore[call-overload]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Chat:
    """A platform as far as answering needs it: it renders in one part and notes while an answer is written."""

    kind = "slack"
    workspace = "T1"

    def __init__(self, account: str = "slack") -> None:
        self.account = account
        self.working_at: list[Address] = []
        self.at_work = 0

    def render(self, markdown: str) -> tuple[RenderedPart, ...]:
        return (RenderedPart(payload={"text": markdown}, text=markdown),)

    @contextlib.asynccontextmanager
    async def working(self, address: Address) -> AsyncIterator[None]:
        self.working_at.append(address)
        self.at_work += 1
        try:
            yield
        finally:
            self.at_work -= 1


class Agent:
    """Answers with a running number; can be held back, and can fail."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def answer(self, question: Question) -> str:
        self.asked.append(question)
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return f"answer {len(self.asked)}"


class Talk:
    """`/cron` as typed."""

    def __init__(self) -> None:
        self.words: list[str] = []

    async def run(self, words: str, inbound: Inbound) -> str:
        self.words.append(words)
        return f"did {words}"


class Conversation:
    """Inbox, router and responder over one database, as the wiring puts them together."""

    def __init__(self, db: Database, clock: Clock, rules: Rules) -> None:
        self.db, self.clock, self.rules = db, clock, rules
        self.seeder = Seeder(rules)
        self.chats = {name: Chat(name) for name in ("slack", "telegram", "local")}
        self.agent, self.talk = Agent(), Talk()
        replies = Replies(self.chats, woken=lambda: None)  # type: ignore[arg-type]
        placer = Placer(self.seeder, self.confirm)
        self.responder = Responder(
            db,
            answerer=self.agent,
            outbox=replies,
            settlement=self.seeder,
            platforms=self.chats,  # type: ignore[arg-type]
            rules=rules,
            now=clock.now,
            sleep=clock.sleep,
        )
        self.router = Router(
            db,
            placer=placer,
            rules=rules,
            commands=self.talk,
            outbox=replies,
            routed=self.responder.wake,
            now=clock.now,
            sleep=clock.sleep,
            monotonic=clock.monotonic,
        )
        self.inbox = Inbox(db, rules, now=clock.now, heard=self.router.wake)

    def confirm(self, conn: Connection, delivery_id: DeliveryId, n: int, receipt: Receipt, *, at: datetime) -> object:
        return outbox.confirm_part(conn, delivery_id, n, receipt, at=at, settlement=self.seeder)

    async def post(self, address: Address, *texts: str, job: str = "build-health") -> tuple[DeliveryId, list[str]]:
        return await self.db.write(lambda conn: post(conn, self.seeder, self.clock.at, address, *texts, job=job))

    async def hear(self, inbound: Inbound) -> str | None:
        """Hear one message, route all that waits, and return the session it is in."""
        await self.inbox.hear(inbound)
        await self.route()
        return await self.session_of(inbound)

    async def route(self) -> None:
        await self.router.look()
        while self.router._busy:
            await asyncio.gather(*self.router._busy.values())
            await asyncio.sleep(0)

    async def respond(self) -> None:
        """Let every agent that can be asked answer, and the platform confirm what they say."""
        for _ in range(20):
            has_more = await self.responder.look()
            while self.responder._busy and self.agent.gate.is_set():
                await asyncio.gather(*self.responder._busy.values())
                await asyncio.sleep(0)
            if not await self.deliver() and not has_more:
                return

    async def deliver(self) -> list[str]:
        """Let the platform confirm every reply that waits; return what it showed."""

        def confirm(conn: Connection) -> list[str]:
            rows = conn.execute(
                select(schema.deliveries, schema.parts.c.text)
                .join(schema.parts)
                .where(schema.deliveries.c.kind.in_(["answer", "notice"]), schema.parts.c.state == "pending")
                .order_by(schema.deliveries.c.seq)
            ).all()
            for row in rows:
                landed = Address(
                    account=row.account,
                    workspace=row.workspace,
                    chat=row.chat,
                    chat_kind=ChatKind(row.chat_kind),
                    topic=row.topic,
                    root=row.thread,
                    message=f"{next(_numbers)}.000200",
                )
                arrive(conn, self.seeder, row.id, 1, landed, at=self.clock.at)
            return [row.text for row in rows]

        return await self.db.write(confirm)

    async def session_of(self, inbound: Inbound) -> str | None:
        row = await self.row(inbound)
        return None if row is None else row.session_id

    async def row(self, inbound: Inbound):  # type: ignore[no-untyped-def]
        table = schema.inbound
        query = select(table).where(table.c.chat == inbound.address.chat, table.c.message == inbound.address.message)
        return await self.db.read(lambda conn: conn.execute(query).one_or_none())

    async def delivery(self, delivery: str):  # type: ignore[no-untyped-def]
        return await self.db.read(lambda conn: delivery_row(conn, delivery))

    async def texts(self, session: str | None) -> list[str]:
        return await self.db.read(lambda conn: texts(conn, session))

    async def notices(self) -> list[str]:
        query = (
            select(schema.parts.c.text)
            .join(schema.deliveries)
            .where(schema.deliveries.c.kind == "notice")
            .order_by(schema.deliveries.c.seq)
        )
        return list(await self.db.read(lambda conn: conn.execute(query).scalars().all()))
