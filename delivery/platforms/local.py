"""The local platform: channels that are rows of our own database. The page and the terminal speak through it.

Its posts, their receipts and the settlement are one transaction, so nothing here is ever in doubt. A person's
message is a row first; it is handed over to be heard from there, so that one the last process did not get to
is handed over at the next start.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from delivery.model import (
    Absent,
    Address,
    Author,
    ChatKind,
    FindResult,
    Inbound,
    NotSent,
    OutgoingPart,
    PartKind,
    Receipt,
    Rejected,
    SendResult,
    Sent,
)
from delivery.ports import Chat, Hear, Opening, PartRefused, TargetUnresolved
from delivery.render.parts import RenderedPart
from delivery.retry import CONNECTS
from delivery.targets import LOCAL, Target, TargetError, parse_target
from state import schema
from state.clock import Now, Sleep
from state.database import Database

MESSAGES = schema.local_messages

SHOWN = 1000
"""How many messages one request returns at most."""

_NEW = insert(MESSAGES)

LONGEST_TEXT = 40_000
LONGEST_AUTHOR = 80
OUR_NAME = "hermes-cron"
_LARGEST_ID = 2**63 - 1

log = logging.getLogger(__name__)


class LocalError(ValueError):
    """A message or channel that cannot be. The text is one sentence with the way out."""


class LocalMessage(TypedDict):
    """One message as the page's API shows it. `thread` is the root's id; `job` is set on briefs."""

    id: str
    channel: str
    thread: str | None
    author: str
    text: str
    at: str
    job: str | None


def channel_name(text: str) -> str:
    """Return a channel's name as it is stored: without '#', in small letters. Raises LocalError."""
    name = text.strip().removeprefix("#")
    try:
        return parse_target(f"local:#{name}", {}).chat if "/" not in name else _refuse_channel(text)
    except TargetError:
        return _refuse_channel(text)


def _refuse_channel(text: str) -> str:
    raise LocalError(
        f'"{text[:80]}" is no channel name: write a word such as general or ops, without spaces, "/", ":", "@" or ","'
    )


def messages(conn: Connection, channel: str, after: str | None = None) -> list[LocalMessage]:
    """Return a channel's newest 1,000 messages, oldest first, threads included.

    With `after` (a message's id): those that came after it, oldest first, at most 1,000; ask again with the
    last one's id for the rest. Raises LocalError.
    """
    name = channel_name(channel)
    here = select(MESSAGES).where(MESSAGES.c.channel == name)
    if after is None:
        newest = conn.execute(here.order_by(MESSAGES.c.id.desc()).limit(SHOWN)).all()
        return [_shown(row) for row in reversed(newest)]
    since = here.where(MESSAGES.c.id > _message_id(after)).order_by(MESSAGES.c.id).limit(SHOWN)
    return [_shown(row) for row in conn.execute(since).all()]


def _shown(row: Row[Any]) -> LocalMessage:
    return LocalMessage(
        id=str(row.id),
        channel=row.channel,
        thread=None if row.thread is None else str(row.thread),
        author=row.author,
        text=row.text,
        at=row.at.isoformat(),
        job=row.job,
    )


def _message_id(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= number <= _LARGEST_ID:
        raise LocalError(f'"{text[:40]}" is no message id: give one that the list of messages shows')
    return number


def _root_of(conn: Connection, channel: str, thread: str) -> int:
    """Return the root of the thread that a message of this channel opens or lies in. Raises LocalError."""
    row = conn.execute(
        select(MESSAGES.c.id, MESSAGES.c.thread).where(
            MESSAGES.c.id == _message_id(thread), MESSAGES.c.channel == channel
        )
    ).one_or_none()
    if row is None:
        raise LocalError(f"there is no message {thread} in #{channel}: answer one that the channel shows")
    return int(row.id if row.thread is None else row.thread)


class LocalPlatform:
    """The account `local`. Channels exist as soon as something is said in them."""

    account = LOCAL
    kind = LOCAL
    workspace = LOCAL

    def __init__(self, db: Database, now: Now, sleep: Sleep) -> None:
        self._db = db
        self._now = now
        self._sleep = sleep
        self._said = asyncio.Event()

    # --- people ---------------------------------------------------------------------------------------

    async def say(self, channel: str, text: str, author: str = "you", thread: str | None = None) -> LocalMessage:
        """Store what a person says and return it; it is durable, and will be heard even after a crash.

        `thread` is the id of the message that it answers. Raises LocalError.
        """
        name, who = channel_name(channel), _author(author)
        words, at = _text(text), self._now()

        def store(conn: Connection) -> LocalMessage:
            root = None if thread is None else _root_of(conn, name, thread)
            new = insert(MESSAGES).values(channel=name, thread=root, author=who, text=words, at=at, heard=False)
            key = conn.execute(new).inserted_primary_key
            assert key is not None
            return _shown(conn.execute(select(MESSAGES).where(MESSAGES.c.id == key[0])).one())

        said = await self._db.write(store)
        self._said.set()
        return said

    async def listen(self, hear: Hear) -> None:
        """Hand over what people say, in order, beginning with what the last process did not get to."""
        failures = 0
        heard_to = (
            0  # they are handed over in order: looking from there on spares a walk through all that was ever said
        )
        while True:
            self._said.clear()
            row = await self._db.read(lambda conn, since=heard_to: _next_unheard(conn, since))  # type: ignore[misc]
            if row is None:
                await self._said.wait()
                continue
            try:
                await hear(await self._db.read(lambda conn, row=row: _inbound(conn, row)))  # type: ignore[misc]
            except Exception as error:  # around one inbound: it stays unheard and is handed over again
                failures += 1
                log.exception(
                    "A message could not be taken in; it is handed over again.",
                    extra={"action": "local_message_not_heard", "message_id": row.id, "reason": str(error)},
                )
                await self._sleep(CONNECTS.wait(failures).total_seconds())
                continue
            failures, heard_to = 0, row.id
            heard = update(MESSAGES).where(MESSAGES.c.id == row.id).values(heard=True)
            await self._db.write(lambda conn, heard=heard: conn.execute(heard).rowcount)  # type: ignore[misc]

    async def changes(self, channel: str | None = None, after: str | None = None) -> AsyncIterator[LocalMessage]:
        """Yield messages as they become durable, in order: those after an id, or from now on. Never ends by itself.

        `channel` None: of every channel. Raises LocalError at the first step.
        """
        name = None if channel is None else channel_name(channel)
        stirred = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stir() -> None:
            loop.call_soon_threadsafe(stirred.set)

        unsubscribe = self._db.on_commit(stir)
        try:
            seen = await self._db.read(_last_id) if after is None else _message_id(after)
            while True:
                stirred.clear()
                rows = await self._db.read(lambda conn, seen=seen: _since(conn, name, seen))  # type: ignore[misc]
                for row in rows:
                    seen = row.id
                    yield _shown(row)
                if len(rows) < SHOWN:
                    await stirred.wait()
        finally:
            unsubscribe()

    # --- Platform -------------------------------------------------------------------------------------

    async def connect(self) -> str:
        """Return the workspace; there is nothing to log in to."""
        return self.workspace

    async def catch_up(self, address: Address, since: datetime, hear: Hear) -> None:
        """Do nothing: what people say is kept, and `listen` begins with what was not heard."""

    async def chats(self) -> Sequence[Chat]:
        """List the channels in which something was said."""
        names = await self._db.read(
            lambda conn: list(
                conn.execute(select(MESSAGES.c.channel).distinct().order_by(MESSAGES.c.channel)).scalars()
            )
        )
        return [Chat(chat=name, name=name, kind=ChatKind.CHANNEL) for name in names]

    async def resolve(self, target: Target) -> Address:
        """Name the place of a target; a thread must exist in its channel. Raises TargetUnresolved."""
        try:
            name = channel_name(target.chat)
            root = (
                None
                if target.thread is None
                else await self._db.read(lambda conn: _root_of(conn, name, target.thread or ""))
            )
        except LocalError as error:
            raise TargetUnresolved(str(error), final=True) from error
        return replace(_place(name), root=None if root is None else str(root))

    def render(self, markdown: str) -> tuple[RenderedPart, ...]:
        """Keep the Markdown as it is, in one part: the page formats it."""
        return (RenderedPart(payload={"text": markdown}, text=markdown),) if markdown.strip() else ()

    def opening(self, address: Address, title: str) -> Opening | None:
        """Open a thread with a header message, unless the place is a thread already."""
        if address.root is not None:
            return None
        return Opening(kind=PartKind.HEADER, payload={"text": title}, text=title)

    def post(self, conn: Connection, part: OutgoingPart, *, job: str | None, at: datetime) -> Receipt:
        """Write a message of ours and return its receipt. Raises PartRefused if its thread is not there."""
        try:
            channel = channel_name(part.address.chat)
            root = None if part.address.root is None else _root_of(conn, channel, part.address.root)
        except LocalError as error:
            raise PartRefused(str(error)) from error
        text = str(part.payload["text"])
        new = {"channel": channel, "thread": root, "author": OUR_NAME, "text": text, "at": at, "job": job}
        key = conn.execute(_NEW, new).inserted_primary_key
        assert key is not None
        place = replace(_place(channel), message=str(key[0]), root=None if root is None else str(root))
        return Receipt(address=place, at=at, raw={"id": str(key[0]), "channel": channel})

    async def send(self, part: OutgoingPart) -> SendResult:
        """Post one part by itself. The dispatcher does not: it posts in the outbox's transaction."""
        at = self._now()
        try:
            return Sent(receipt=await self._db.write(lambda conn: self.post(conn, part, job=None, at=at)))
        except PartRefused as refused:
            return Rejected(reason=refused.reason)
        except Exception as error:  # noqa: BLE001 - the contract: never raises; nothing was written
            return NotSent(reason=f"{type(error).__name__}: {error}")

    async def find(self, part: OutgoingPart) -> FindResult:
        """Say that it is not there: had it been written, its receipt would be, too."""
        return Absent()

    def working(self, address: Address) -> AbstractAsyncContextManager[None]:
        """Show nothing."""
        return nullcontext()

    async def retract(self, receipt: Receipt) -> bool:
        """Delete a message of ours. True if it is gone."""
        number = _message_id(receipt.address.message or "")
        gone = delete(MESSAGES).where(MESSAGES.c.id == number, MESSAGES.c.heard.is_(None))
        await self._db.write(lambda conn: conn.execute(gone).rowcount)
        return True

    async def close(self) -> None:
        """Do nothing: the database is not ours to close."""


def _place(channel: str) -> Address:
    return Address(account=LOCAL, workspace=LOCAL, chat=channel, chat_kind=ChatKind.CHANNEL)


def _next_unheard(conn: Connection, since: int) -> Row[Any] | None:
    unheard = select(MESSAGES).where(MESSAGES.c.id > since, MESSAGES.c.heard.is_(False))
    unheard = unheard.order_by(MESSAGES.c.id).limit(1)
    return conn.execute(unheard).one_or_none()


def _last_id(conn: Connection) -> int:
    return int(conn.execute(select(func.coalesce(func.max(MESSAGES.c.id), 0))).scalar_one())


def _since(conn: Connection, channel: str | None, seen: int) -> Sequence[Row[Any]]:
    new = select(MESSAGES).where(MESSAGES.c.id > seen).order_by(MESSAGES.c.id).limit(SHOWN)
    return conn.execute(new if channel is None else new.where(MESSAGES.c.channel == channel)).all()


def _inbound(conn: Connection, row: Row[Any]) -> Inbound:
    ours = select(MESSAGES.c.id).where(MESSAGES.c.id == row.thread, MESSAGES.c.heard.is_(None))
    answers_us = row.thread is not None and conn.execute(ours).first() is not None
    return Inbound(
        address=replace(_place(row.channel), message=str(row.id), root=None if row.thread is None else str(row.thread)),
        author=Author(id=row.author, name=row.author),
        text=row.text,
        at=row.at,
        answers_us=answers_us,
    )


def _text(text: str) -> str:
    if not text.strip():
        raise LocalError("an empty message: write something")
    if len(text) > LONGEST_TEXT:
        raise LocalError(f"a message has at most {LONGEST_TEXT} characters, this one has {len(text)}")
    return _storable(text, "message")


def _author(author: str) -> str:
    name = " ".join(author.split()) or "you"
    if len(name) > LONGEST_AUTHOR:
        raise LocalError(f"a name has at most {LONGEST_AUTHOR} characters, this one has {len(name)}")
    if name.casefold() == OUR_NAME:
        raise LocalError(f'"{OUR_NAME}" is the program itself: say it under another name')
    return _storable(name, "name")


def _storable(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LocalError(f"the {what} holds half a character (a lone surrogate): send valid text") from None
    return text
