"""The books of seeding: which delivery is owed a seed on which surface, and what a delivery says of its seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, exists, insert, or_, select, update

from delivery.model import DeliveryKind, DeliveryState, Surface
from seeding.prepared import Prepared
from state.schema import deliveries, receipts, seeds

OWED, LANDED = "owed", "landed"
LOOK_BACK = timedelta(days=7)
"""How far back a delivery is looked for that nobody has begun to seed (what is on the books has no limit)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the books say of one surface of a delivery."""

    session_id: str | None
    state: str
    attempts: int


_ENTRIES = Prepared(
    select(seeds.c.surface, seeds.c.session_id, seeds.c.state, seeds.c.attempts).where(
        seeds.c.delivery_id == bindparam("delivery")
    )
)
_INSERT = Prepared(insert(seeds), columns=[column.key for column in seeds.c])
_UPDATE = Prepared(
    update(seeds)
    .where(seeds.c.delivery_id == bindparam("delivery"), seeds.c.surface == bindparam("on"))
    .values(
        session_id=bindparam("in_session"),
        state=bindparam("to"),
        attempts=bindparam("tries"),
        error=bindparam("why"),
        updated_at=bindparam("when"),
    )
)
_FLAGS = Prepared(
    update(deliveries)
    .where(deliveries.c.id == bindparam("delivery"))
    .values(
        flat_session=bindparam("to_flat"),
        thread_session=bindparam("to_thread"),
        flat_seeded=bindparam("flat_landed"),
        thread_seeded=bindparam("thread_landed"),
    )
)
_MOVE_FLAT = (
    update(deliveries)
    .where(deliveries.c.id.in_(bindparam("which", expanding=True)), deliveries.c.flat_session == bindparam("old"))
    .values(flat_session=bindparam("new"))
)


def entries(conn: Connection, delivery_id: str) -> dict[Surface, Entry]:
    """Read what the books say of a delivery."""
    rows = _ENTRIES.all(conn, {"delivery": delivery_id})
    return {
        Surface(surface): Entry(session_id=session, state=state, attempts=attempts)
        for surface, session, state, attempts in rows
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How the seed of one surface went. `error` None: it landed in that session."""

    surface: Surface
    session_id: str
    error: str | None = None


def record(
    conn: Connection, delivery_id: str, results: Sequence[Result], before: Mapping[Surface, Entry], *, at: datetime
) -> None:
    """Write down how it went: a surface that failed is owed until it lands."""
    fresh = [_row(delivery_id, one, before, at) for one in results if one.surface not in before]
    known = [_change(delivery_id, one, before, at) for one in results if one.surface in before]
    _INSERT.run(conn, fresh)
    _UPDATE.run(conn, known)


def flag(
    conn: Connection,
    delivery_id: str,
    *,
    flat_session: str | None,
    thread_session: str | None,
    flat_seeded: bool | None,
    thread_seeded: bool | None,
) -> None:
    """Write on the delivery where its seeds are."""
    values = {
        "delivery": delivery_id,
        "to_flat": flat_session,
        "to_thread": thread_session,
        "flat_landed": flat_seeded,
        "thread_landed": thread_seeded,
    }
    _FLAGS.run(conn, [values])


def move_flat(conn: Connection, delivery_ids: Sequence[str], *, old: str, new: str) -> None:
    """Note that the flat seeds of these deliveries were carried from one session to another."""
    if delivery_ids:
        conn.execute(_MOVE_FLAT, {"which": list(delivery_ids), "old": old, "new": new})


# --- what is owed -------------------------------------------------------------------------------------

_HAS_TEXT = exists().where(receipts.c.delivery_id == deliveries.c.id, receipts.c.n >= 1)
_HAS_ENTRY = exists().where(seeds.c.delivery_id == deliveries.c.id)
_UNSEEDED = (
    deliveries.c.kind == DeliveryKind.BRIEF.value,
    deliveries.c.continues.is_(True),
    _HAS_TEXT,
    or_(deliveries.c.flat_seeded.is_(False), deliveries.c.thread_seeded.is_(False), ~_HAS_ENTRY),
)
_UNSEEDED_IN_CHAT = (
    select(deliveries.c.id)
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.chat == bindparam("chat"),
        deliveries.c.created_at >= bindparam("since"),
        *_UNSEEDED,
    )
    .order_by(deliveries.c.created_at, deliveries.c.id)
)
_BEING_SENT = (DeliveryState.PENDING.value, DeliveryState.SENDING.value)
_NEVER_BEGUN = (
    select(deliveries.c.id)
    .where(
        deliveries.c.state.not_in(_BEING_SENT),
        deliveries.c.created_at >= bindparam("since"),
        *_UNSEEDED,
    )
    .order_by(deliveries.c.created_at, deliveries.c.id)
)
_ON_THE_BOOKS = select(seeds.c.delivery_id).where(seeds.c.state == OWED).distinct().order_by(seeds.c.delivery_id)


def unseeded_in_chat(conn: Connection, account: str, chat: str, *, at: datetime) -> tuple[str, ...]:
    """List the briefs to a chat of which something arrived and a seed is missing, oldest first."""
    params = {"account": account, "chat": chat, "since": at - LOOK_BACK}
    return tuple(conn.execute(_UNSEEDED_IN_CHAT, params).scalars())


def owed(conn: Connection, *, at: datetime) -> tuple[str, ...]:
    """List the deliveries that are owed a seed: those on the books, and those that nobody has begun."""
    begun = conn.execute(_ON_THE_BOOKS).scalars().all()
    never = conn.execute(_NEVER_BEGUN, {"since": at - LOOK_BACK}).scalars().all()
    return tuple(dict.fromkeys([*begun, *never]))


def _row(delivery_id: str, one: Result, before: Mapping[Surface, Entry], at: datetime) -> dict[str, Any]:
    return {
        "delivery_id": delivery_id,
        "surface": one.surface.value,
        "session_id": one.session_id,
        "state": LANDED if one.error is None else OWED,
        "attempts": 1,
        "error": one.error,
        "updated_at": at,
    }


def _change(delivery_id: str, one: Result, before: Mapping[Surface, Entry], at: datetime) -> dict[str, Any]:
    return {
        "delivery": delivery_id,
        "on": one.surface.value,
        "in_session": one.session_id,
        "to": LANDED if one.error is None else OWED,
        "tries": before[one.surface].attempts + 1,
        "why": one.error,
        "when": at,
    }


# --- what is on its way -------------------------------------------------------------


_CONFIRMED = exists().where(receipts.c.delivery_id == deliveries.c.id)
_IN_FLIGHT = (
    select(deliveries.c.id)
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.chat == bindparam("chat"),
        deliveries.c.kind == DeliveryKind.BRIEF.value,
        or_(
            deliveries.c.state == DeliveryState.SENDING.value,
            and_(deliveries.c.state == DeliveryState.PENDING.value, _CONFIRMED),
        ),
    )
    .limit(1)
)


def is_in_flight(conn: Connection, account: str, chat: str) -> bool:
    """Whether a brief to this chat is being sent right now."""
    return conn.execute(_IN_FLIGHT, {"account": account, "chat": chat}).first() is not None
