"""Deliveries and parts as rows: how they are read, and how a delivery's state follows from its parts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, Row, Table, bindparam, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from delivery.model import (
    Address,
    ChatKind,
    DeliveryId,
    DeliveryKind,
    DeliveryState,
    InboundId,
    OutgoingPart,
    PartKind,
    PartState,
    Receipt,
)
from delivery.states import PartFacts, Verdict, judge
from state import schema

DELIVERIES = schema.deliveries
PARTS = schema.parts
RECEIPTS = schema.receipts

DeliveryRow = Row[Any]
PartRow = Row[Any]

_DELIVERY = select(DELIVERIES).where(DELIVERIES.c.id == bindparam("delivery"))
_PARTS = select(PARTS).where(PARTS.c.delivery_id == bindparam("delivery")).order_by(PARTS.c.n)
_SET_DELIVERY = update(DELIVERIES).where(DELIVERIES.c.id == bindparam("of_delivery"))
_SET_PART = update(PARTS).where(PARTS.c.delivery_id == bindparam("of_delivery"), PARTS.c.n == bindparam("of_n"))
_HIGHEST_SEQ = select(func.coalesce(func.max(DELIVERIES.c.seq), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySummary:
    """What others are told about a delivery whose state changed."""

    id: DeliveryId
    kind: DeliveryKind
    run_id: str | None
    inbound_id: InboundId | None
    job: str | None
    target: str
    account: str
    chat: str | None
    state: DeliveryState
    error: str | None


def summary_of(row: DeliveryRow) -> DeliverySummary:
    """Build the summary of a deliveries row."""
    return DeliverySummary(
        id=DeliveryId(row.id),
        kind=DeliveryKind(row.kind),
        run_id=row.run_id,
        inbound_id=None if row.inbound_id is None else InboundId(row.inbound_id),
        job=row.job,
        target=row.target,
        account=row.account,
        chat=row.chat,
        state=DeliveryState(row.state),
        error=row.error,
    )


def load_delivery(conn: Connection, delivery_id: str) -> DeliveryRow | None:
    """Read one delivery, None if there is no such row."""
    return conn.execute(_DELIVERY, {"delivery": delivery_id}).one_or_none()


def load_parts(conn: Connection, delivery_id: str) -> Sequence[PartRow]:
    """Read a delivery's parts in order."""
    return conn.execute(_PARTS, {"delivery": delivery_id}).all()


def facts_of(parts: Sequence[PartRow]) -> list[PartFacts]:
    """Turn part rows into what is decided on."""
    return [
        PartFacts(
            n=part.n,
            kind=PartKind(part.kind),
            state=PartState(part.state),
            degraded=part.degraded,
            error=part.error,
            told_at=part.told_at,
            attempts=part.attempts,
            not_before=part.not_before,
        )
        for part in parts
    ]


def set_part(conn: Connection, delivery_id: str, n: int, **values: object) -> None:
    """Change one part."""
    conn.execute(_SET_PART, {"of_delivery": delivery_id, "of_n": n, **values})


def set_delivery(conn: Connection, delivery_id: str, **values: object) -> None:
    """Change one delivery."""
    conn.execute(_SET_DELIVERY, {"of_delivery": delivery_id, **values})


def refresh(conn: Connection, delivery_id: str, *, at: datetime) -> DeliverySummary | None:
    """Let a delivery's state follow its parts; return the summary if the state or its sentence changed."""
    row = load_delivery(conn, delivery_id)
    if row is None:
        return None
    verdict = judge(facts_of(load_parts(conn, delivery_id)))
    if (verdict.state, verdict.error) == (row.state, row.error):
        return None
    set_delivery(conn, delivery_id, state=verdict.state, error=verdict.error, updated_at=at, **_owed(row, verdict))
    return replace(summary_of(row), state=verdict.state, error=verdict.error)


def _owed(row: DeliveryRow, verdict: Verdict) -> dict[str, bool | None]:
    """A delivery that failed owes no seed; one that is taken up again does."""
    if verdict.state is DeliveryState.FAILED:
        return {"flat_seeded": row.flat_seeded or None, "thread_seeded": row.thread_seeded or None}
    if row.state == DeliveryState.FAILED:
        owed = seeds_owed(kind=DeliveryKind(row.kind), continues=row.continues, is_in_thread=_is_in_thread(row))
        return {key: row._mapping[key] or value for key, value in owed.items()}
    return {}


def _is_in_thread(row: DeliveryRow) -> bool:
    return row.thread is not None and row.root is None


def seeds_owed(*, kind: DeliveryKind, continues: bool, is_in_thread: bool) -> dict[str, bool | None]:
    """Return what a new delivery owes: false is owed, null nothing. In an existing thread nothing flat is owed."""
    if kind is not DeliveryKind.BRIEF or not continues:
        return {"flat_seeded": None, "thread_seeded": None}
    return {"flat_seeded": None if is_in_thread else False, "thread_seeded": False}


def outgoing(row: DeliveryRow, part: PartRow, *, intent_at: datetime) -> OutgoingPart:
    """Build what a platform is handed for a part. The opening itself goes to the place, not into a thread."""
    kind = PartKind(part.kind)
    address = place_of(row)
    if kind is not PartKind.TEXT:
        address = Address(
            account=address.account,
            workspace=address.workspace,
            chat=address.chat,
            chat_kind=address.chat_kind,
        )
    return OutgoingPart(
        delivery_id=DeliveryId(row.id),
        n=part.n,
        kind=kind,
        address=address,
        payload=part.payload,
        marker=part.marker,
        intent_at=intent_at,
    )


def place_of(row: DeliveryRow) -> Address:
    """Return the place that a resolved delivery posts its next part to."""
    return Address(
        account=row.account,
        workspace=row.workspace or "",
        chat=row.chat,
        chat_kind=ChatKind(row.chat_kind),
        topic=row.topic,
        root=row.thread,
    )


def address_key(address: Address) -> str:
    """Spell a resolved place in one text: what may not be delivered to twice by one run."""
    return "|".join((address.account, address.chat, address.topic or "", address.root or ""))


def marker_of(delivery_id: str, n: int) -> str:
    """Make the opaque id of a part; the same part always has the same."""
    return hashlib.sha256(f"{delivery_id}:{n}".encode()).hexdigest()[:32]


def next_seq(conn: Connection) -> int:
    """Return the next place in the queues."""
    return int(conn.execute(_HIGHEST_SEQ).scalar_one()) + 1


def insert_once(conn: Connection, table: Table, values: Mapping[str, object]) -> bool:
    """Insert a row unless a unique key holds one already; True if it is new."""
    return conn.execute(_insert_once(table, conn.dialect.name), values).rowcount > 0


@cache
def _insert_once(table: Table, dialect: str) -> Insert:
    if dialect == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def upsert(
    conn: Connection, table: Table, key: Mapping[str, object], new: Mapping[str, object], **values: object
) -> None:
    """Update the row with this key, or insert it with `new` as well."""
    where = [table.c[name] == value for name, value in key.items()]
    if conn.execute(update(table).where(*where).values(**values)).rowcount == 0:
        conn.execute(insert(table).values(**key, **new, **values))


def has_receipt(conn: Connection, delivery_id: str, n: int) -> bool:
    """Whether the platform's confirmation of a part is stored."""
    found = select(RECEIPTS.c.n).where(RECEIPTS.c.delivery_id == delivery_id, RECEIPTS.c.n == n)
    return conn.execute(found).first() is not None


def add_receipt(conn: Connection, delivery_id: str, n: int, receipt: Receipt) -> bool:
    """Store a receipt; False if the part has one already."""
    address = receipt.address
    return insert_once(
        conn,
        RECEIPTS,
        {
            "delivery_id": delivery_id,
            "n": n,
            "account": address.account,
            "workspace": address.workspace,
            "chat": address.chat,
            "chat_kind": address.chat_kind,
            "topic": address.topic,
            "message": address.message,
            "root": address.root,
            "at": receipt.at,
            "raw": dict(receipt.raw),
        },
    )
