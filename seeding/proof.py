"""Which message of ours without a receipt a person answers: by when it was posted, and by its text where that is told.

A person who answers a message has it before their eyes, so their answer is its receipt; but only if it is that
message. Where that cannot be shown, nothing is proven.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, select

from delivery.model import DeliveryId, Inbound, PartKind, PartState
from seeding.model import ChatRules
from state.schema import deliveries, parts, receipts

CLOCKS_APART = timedelta(minutes=1)
"""How far the platform's clock may be from ours where the text tells two messages apart."""
CLOCKS_APART_BLIND = timedelta(seconds=1)
"""The same where the time alone decides: an older message must not be taken for ours."""
TAKES_AT_MOST = timedelta(minutes=5)
"""How long after its intent a request can still have been carried out."""
COMPARED = 200
_LOOK_BACK = timedelta(days=30)

_UNPROVEN = (
    select(
        parts.c.delivery_id,
        parts.c.n,
        parts.c.text,
        parts.c.payload,
        parts.c.intent_at,
        deliveries.c.thread,
        deliveries.c.created_at,
    )
    .join(deliveries, deliveries.c.id == parts.c.delivery_id)
    .outerjoin(receipts, and_(receipts.c.delivery_id == parts.c.delivery_id, receipts.c.n == parts.c.n))
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.chat == bindparam("chat"),
        deliveries.c.created_at >= bindparam("since"),
        deliveries.c.created_at <= bindparam("until"),
        parts.c.kind != PartKind.TOPIC.value,
        parts.c.state.in_((PartState.IN_DOUBT.value, PartState.SENDING.value, PartState.SENT.value)),
        parts.c.intent_at.is_not(None),
        receipts.c.n.is_(None),
    )
    .order_by(parts.c.intent_at, deliveries.c.seq, parts.c.n)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The part that is answered, and when the platform says that it was posted."""

    delivery_id: DeliveryId
    n: int
    at: datetime


def proven_by(conn: Connection, inbound: Inbound, rules: ChatRules) -> Proven | None:
    """Return the part of ours without a receipt that this message surely answers; None if none is sure.

    It is one that is in doubt, being sent, or called sent by a person. Its text is the answered message's where the
    platform tells that; else it is the last one that was begun before the answered message was posted.
    """
    at = inbound.answered_at
    if at is None or not inbound.answers_us:
        return None
    address = inbound.address
    where = {
        "account": address.account,
        "chat": address.chat,
        "since": at - _LOOK_BACK,
        "until": at + CLOCKS_APART,
    }
    rows = [
        row
        for row in conn.execute(_UNPROVEN, where)
        if not (rules.has_threads and row.n > 0 and row.thread is not None)  # nobody can answer under it
        and _fits(row, at, inbound.answered_text)
    ]
    chosen = _last_begun(rows, at)
    return None if chosen is None else Proven(delivery_id=DeliveryId(chosen.delivery_id), n=chosen.n, at=at)


def may_be_answered(begun: datetime | None, inbound: Inbound) -> bool:
    """Whether the answered message may be one that was begun then: not if it stood there before."""
    at = inbound.answered_at
    return at is None or begun is None or not inbound.answers_us or begun <= at + CLOCKS_APART


def _fits(row: Any, at: datetime, text: str | None) -> bool:
    if at > row.intent_at + TAKES_AT_MOST:
        return False
    if text is None:
        return bool(row.intent_at <= at + CLOCKS_APART_BLIND)
    # The intent may be a later one than the one that was carried out (after a retry, or an older copy of the database).
    return bool(row.created_at <= at + CLOCKS_APART) and _start(text) in (_start(row.text), _start(_shown(row.payload)))


def _last_begun(rows: Sequence[Any], at: datetime) -> Any:
    begun = [row for row in rows if row.intent_at <= at + CLOCKS_APART_BLIND]
    if begun:
        return begun[-1]
    return rows[0] if len(rows) == 1 else None


def _shown(payload: object) -> str:
    text = payload.get("text") if isinstance(payload, dict) else None
    return text if isinstance(text, str) else ""


def _start(text: str) -> str:
    """Return the beginning of a text without what a platform changes: spaces."""
    return "".join(text.split())[:COMPARED]
