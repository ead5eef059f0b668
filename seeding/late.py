"""Late binding: what an answer means when the key that it carries leads nowhere, and what nobody has talked about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, insert, select

from delivery.model import Address, DeliveryId, DeliveryKind, Inbound
from seeding import delivered, mirror, sessions
from seeding import keys as spell
from seeding.labels import mirrored
from seeding.model import ChatRules, Origin, Role, SessionId, SessionKey
from seeding.seeder import Seeder
from state.schema import deliveries, receipts, turns

FIRST_WORDS_BACK = timedelta(days=7)
"""How far back the briefs reach that somebody with a session of their own is given when they first speak."""
MOST_BRIEFS = 50

_BY_MESSAGE = (
    select(receipts.c.delivery_id, deliveries.c.kind)
    .join(deliveries, deliveries.c.id == receipts.c.delivery_id)
    .where(
        receipts.c.account == bindparam("account"),
        receipts.c.workspace == bindparam("workspace"),
        receipts.c.chat == bindparam("chat"),
        receipts.c.message == bindparam("message"),
    )
    .order_by(receipts.c.at.desc())
    .limit(1)
)
_IN_THREAD = (
    select(receipts.c.n)
    .join(deliveries, deliveries.c.id == receipts.c.delivery_id)
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.chat == bindparam("chat"),
        deliveries.c.kind == DeliveryKind.BRIEF.value,
        receipts.c.workspace == bindparam("workspace"),
        receipts.c.root == bindparam("root"),
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A message that we posted."""

    delivery_id: DeliveryId
    kind: DeliveryKind


def ours(conn: Connection, address: Address, message: tuple[str, str]) -> Ours | None:
    """Return whose receipt names this (chat, message), None if we did not post it."""
    chat, name = message
    params = {"account": address.account, "workspace": address.workspace, "chat": chat, "message": name}
    row = conn.execute(_BY_MESSAGE, params).one_or_none()
    return None if row is None else Ours(delivery_id=DeliveryId(row.delivery_id), kind=DeliveryKind(row.kind))


def holds_ours(conn: Connection, address: Address) -> bool:
    """Whether the thread at this address hangs under a message of ours, or a brief was posted in it."""
    if address.root is None:
        return False
    if ours(conn, address, (address.chat, address.root)) is not None:
        return True
    params = {"account": address.account, "workspace": address.workspace, "chat": address.chat, "root": address.root}
    return conn.execute(_IN_THREAD, params).first() is not None


def bind_message(
    conn: Connection, seeder: Seeder, address: Address, message: tuple[str, str], *, at: datetime
) -> SessionId | None:
    """Return the session of a message of ours whose key is not bound, seeding its brief now; None if there is none."""
    found = ours(conn, address, message)
    if found is None:
        return None
    if found.kind is DeliveryKind.BRIEF:
        return seeder.reopen(conn, found.delivery_id, at=at)
    holder = next(iter(mirror.holding(conn, found.delivery_id)), None)
    if holder is not None:
        key = spell.thread_key(
            account=address.account, workspace=address.workspace, chat=message[0], message=message[1]
        )
        sessions.bind(conn, holder, [key], at=at)
    return holder


def answered_briefs(conn: Connection, inbound: Inbound, rules: ChatRules) -> frozenset[str]:
    """Return the briefs that a message explicitly answers, quotes or lies under."""
    found = (
        ours(conn, inbound.address, candidate.message)
        for candidate in spell.candidates_for(inbound, rules)
        if candidate.message is not None
    )
    return frozenset(one.delivery_id for one in found if one is not None and one.kind is DeliveryKind.BRIEF)


# --- briefs that nobody has talked about ----------------------------------------------------------------

_LAST_WORDS = select(func.max(turns.c.id), func.max(turns.c.at)).where(
    turns.c.session_id == bindparam("session"), turns.c.origin == Origin.INBOUND.value
)
_UNDISCUSSED = (
    select(turns.c.delivery_id, turns.c.text, turns.c.at, turns.c.job)
    .where(
        turns.c.session_id == bindparam("session"), turns.c.origin == Origin.CRON.value, turns.c.id > bindparam("after")
    )
    .order_by(turns.c.id)
)
_TO_CHAT = (
    select(deliveries.c.id)
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.chat == bindparam("chat"),
        deliveries.c.kind == DeliveryKind.BRIEF.value,
        deliveries.c.continues.is_(True),
        deliveries.c.created_at >= bindparam("since"),
    )
    .order_by(deliveries.c.created_at.desc(), deliveries.c.id.desc())
    .limit(MOST_BRIEFS)
)
_INSERT = insert(turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undiscussed:
    """A mirrored brief since which nobody has said anything."""

    delivery_id: str | None
    text: str
    at: datetime
    job: str | None


def undiscussed(conn: Connection, session_id: str) -> tuple[Undiscussed, ...]:
    """Return the briefs in a session since the last turn of a person, oldest first."""
    last, _ = conn.execute(_LAST_WORDS, {"session": session_id}).one()
    rows = conn.execute(_UNDISCUSSED, {"session": session_id, "after": last or 0})
    return tuple(Undiscussed(delivery_id=row.delivery_id, text=row.text, at=row.at, job=row.job) for row in rows)


def carry(conn: Connection, briefs: Iterable[Undiscussed], session_id: str) -> None:
    """Copy mirrored briefs into a session that does not hold them."""
    rows = [
        mirror.turn_row(
            session_id,
            role=Role.USER,
            text=one.text,
            at=one.at,
            origin=Origin.CRON,
            job=one.job,
            delivery_id=one.delivery_id,
        )
        for one in briefs
        if one.delivery_id is None or session_id not in mirror.holding(conn, one.delivery_id)
    ]
    mirror.insert_turns(conn, rows)


def briefs_for_user(
    conn: Connection, address: Address, rules: ChatRules, user: str, key: SessionKey, *, since: datetime
) -> tuple[Undiscussed, ...]:
    """Return the briefs that were posted, after `since`, where this person's own flat key leads; oldest first."""
    params = {"account": address.account, "chat": address.chat, "since": since - timedelta(days=1)}
    found: list[Undiscussed] = []
    for delivery_id in conn.execute(_TO_CHAT, params).scalars().all():
        one = delivered.load(conn, delivery_id)
        if one is None or one.arrived_at is None or one.arrived_at <= since:
            continue
        if key not in spell.keys_for(one.landed, rules, user=user).flat:
            continue
        text = mirrored(one.job, delivered.text_of(one.texts))
        found.append(Undiscussed(delivery_id=one.id, text=text, at=one.arrived_at, job=one.job))
    return tuple(reversed(found))


def last_words_at(conn: Connection, session_id: str) -> datetime | None:
    """Return when a person last said something in a session."""
    _, at = conn.execute(_LAST_WORDS, {"session": session_id}).one()
    return at  # type: ignore[no-any-return]


def jobs_of(briefs: Sequence[Undiscussed]) -> tuple[str, ...]:
    """Return the names of the jobs that wrote these briefs, once each."""
    return tuple(dict.fromkeys(one.job for one in briefs if one.job is not None))
