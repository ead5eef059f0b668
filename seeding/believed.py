"""A brief that a person calls sent, of which no message is known: kept, marked, where answers to it will land."""

from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection, bindparam, select

from delivery.model import Address, ChatKind
from seeding import delivered, mirror, sessions
from seeding import keys as spell
from seeding.delivered import Delivered
from seeding.labels import mirrored
from seeding.model import SessionId
from seeding.ports import Rulebook
from seeding.sessions import NewSession
from state.schema import deliveries

WORD = "[a person says that this brief arrived; the platform has not confirmed it]"

_PLACE = select(
    deliveries.c.account,
    deliveries.c.workspace,
    deliveries.c.chat,
    deliveries.c.chat_kind,
    deliveries.c.topic,
    deliveries.c.thread,
).where(deliveries.c.id == bindparam("delivery"))


class Reopens(Protocol):
    """The part of the seeder that is needed where a header or topic of the brief is known."""

    def reopen(self, conn: Connection, delivery_id: str, *, at: datetime) -> SessionId | None:
        """Return the conversation of its own of a brief, made if there is none."""


def believe(conn: Connection, seeder: Reopens, rulebook: Rulebook, one: Delivered, *, at: datetime) -> None:
    """Mirror the brief, marked, into the conversation of its place. Idempotent.

    A receipt that comes later (somebody answers under it) seeds it as any other and takes the mark away. Where each
    person has a conversation of their own nothing is stored: none of them is meant.
    """
    if one.has_turns:
        return
    session = seeder.reopen(conn, one.id, at=at) if one.landed else _session_at_its_place(conn, rulebook, one, at)
    if session is None:
        return
    text = f"{mirrored(one.job, delivered.text_of(one.texts))}\n{WORD}"
    when = one.begun_at or at
    mirror.insert_briefs(conn, [session], text=text, at=when, job=one.job, delivery_id=one.id, is_unconfirmed=True)
    sessions.touch(conn, [session], at=at)


def _session_at_its_place(conn: Connection, rulebook: Rulebook, one: Delivered, at: datetime) -> SessionId | None:
    row = conn.execute(_PLACE, {"delivery": one.id}).one()
    if row.chat is None or row.workspace is None:
        return None
    address = Address(
        account=row.account,
        workspace=row.workspace,
        chat=row.chat,
        chat_kind=ChatKind(row.chat_kind),
        topic=row.topic,
        root=row.thread,
    )
    rules, topic = rulebook.for_chat(address), spell.topic_of(address)
    if spell.lies_in_thread(address, rules):
        key = spell.thread_key(account=row.account, workspace=row.workspace, chat=row.chat, message=row.thread)
        wanted = NewSession(id=sessions.new_id(at), address=address, topic=topic, root=row.thread, job=one.job)
    elif spell.is_per_user(address, rules):
        return None
    else:
        key = spell.flat_key_of(address, rules, None)
        wanted = NewSession(id=sessions.new_id(at), address=address, topic=topic)
    return sessions.get_or_create(conn, key, wanted, at=at)
