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
from seeding.model import ChatRules, Turn
from seeding.questions import transcript_of
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


def arrive(
    conn: Connection, seeder: Seeder, delivery: str, n: int, address: Address, *, at: datetime
) -> None:
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
    return Inbound(
        address=named, author=Author(id=who, name=name, is_bot=is_bot), text=text, at=at, **more
    )  # type: ignore[arg-type]


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
