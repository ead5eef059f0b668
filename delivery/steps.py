"""What is done next in one chat's queue, and what became of it. Functions on a Connection.

Intent before the call, result after it: `next_step` stores that a part is being sent, `results` what the
platform said. Nothing here calls anything.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from delivery.chats import (
    DOWN,
    UP,
    gate,
    hold_delivery,
    reject_waiting,
)
from delivery.model import (
    DeliveryState,
    OutgoingPart,
    PartState,
)
from delivery.rows import (
    DELIVERIES,
    PARTS,
    DeliveryRow,
    DeliverySummary,
    PartRow,
    facts_of,
    load_delivery,
    load_parts,
    outgoing,
    refresh,
    set_part,
)
from delivery.states import next_part

_AT_ONCE = 50
_DOUBTS_LOOKED_AT = 50
_QUEUED = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.IN_DOUBT, DeliveryState.HELD)
_PENDING = (
    select(DELIVERIES)
    .where(
        DELIVERIES.c.account == bindparam("account"),
        DELIVERIES.c.chat == bindparam("chat"),
        DELIVERIES.c.state == bindparam("state"),
        select(PARTS.c.n).where(PARTS.c.delivery_id == DELIVERIES.c.id, PARTS.c.state == PartState.PENDING).exists(),
    )
    .order_by(DELIVERIES.c.seq)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Call the platform with this part: its intent is stored."""

    part: OutgoingPart
    job: str | None
    run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Ask the platform whether this part is there."""

    part: OutgoingPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing may be called here before then."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Deliveries were held or failed without a call; look again."""

    changed: tuple[DeliverySummary, ...]


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do here until somebody says so."""


Step = Send | Ask | Wait | Changed | Idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One chat of one account: its deliveries go out one after the other."""

    account: str
    chat: str


def lanes(conn: Connection) -> list[Lane]:
    """Return the chats in which something is waiting to be sent or to be asked for."""
    open_part = (PARTS.c.state == PartState.PENDING) | (
        (PARTS.c.state == PartState.IN_DOUBT) & PARTS.c.not_before.is_not(None)
    )
    rows = conn.execute(
        select(DELIVERIES.c.account, DELIVERIES.c.chat)
        .distinct()
        .join(PARTS, PARTS.c.delivery_id == DELIVERIES.c.id)
        .where(DELIVERIES.c.state.in_(_QUEUED), DELIVERIES.c.chat.is_not(None), open_part)
    )
    return [Lane(account=row.account, chat=row.chat) for row in rows]


def next_step(conn: Connection, lane: Lane, *, at: datetime) -> Step:
    """Decide what is done next in a chat; for a `Send` the intent is stored with it.

    First what is due to be asked for, then the oldest delivery's next part. One that waits (a retry, a flood
    wait) makes those behind it wait too; one in doubt does not.
    """
    here = gate(conn, lane.account, lane.chat)
    if here.account == DOWN:
        return hold_all(conn, lane, here.reason or "the account is down", at=at)
    if here.account != UP:
        return Idle()
    if here.not_before is not None and here.not_before > at:
        return Wait(until=here.not_before)
    ask = _next_ask(conn, lane)
    if ask is not None and ask[1].not_before <= at:
        return Ask(part=outgoing(ask[0], ask[1], intent_at=ask[1].intent_at))
    if here.gone is not None:
        return _fail_all(conn, lane, here.gone, at) if pending(conn, lane) else _wait_for(ask)
    return _next_send(conn, lane, ask, at)


def _wait_for(ask: tuple[DeliveryRow, PartRow] | None) -> Step:
    return Idle() if ask is None else Wait(until=ask[1].not_before)


def pending(conn: Connection, lane: Lane, limit: int = 1) -> list[DeliveryRow]:
    """Return the oldest deliveries of a chat that have a part to send, `limit` of each state.

    One query for each state, so that the index gives them in order however long the queue is. A delivery in
    doubt may have to wait, so more of those are looked at.
    """
    rows: list[DeliveryRow] = []
    for state in (DeliveryState.PENDING, DeliveryState.HELD, DeliveryState.IN_DOUBT):
        most = max(limit, _DOUBTS_LOOKED_AT) if state is DeliveryState.IN_DOUBT else limit
        where = {"account": lane.account, "chat": lane.chat, "state": state, "most": most}
        rows.extend(conn.execute(_PENDING, where).all())
    return sorted(rows, key=lambda row: row.seq)


def _next_ask(conn: Connection, lane: Lane) -> tuple[DeliveryRow, PartRow] | None:
    part = conn.execute(
        select(PARTS)
        .join(DELIVERIES, DELIVERIES.c.id == PARTS.c.delivery_id)
        .where(
            DELIVERIES.c.account == lane.account,
            DELIVERIES.c.chat == lane.chat,
            DELIVERIES.c.state.in_(_QUEUED),
            PARTS.c.state == PartState.IN_DOUBT,
            PARTS.c.not_before.is_not(None),
        )
        .order_by(PARTS.c.not_before, PARTS.c.n)
        .limit(1)
    ).one_or_none()
    if part is None:
        return None
    row = load_delivery(conn, part.delivery_id)
    return None if row is None else (row, part)


def _next_send(conn: Connection, lane: Lane, ask: tuple[DeliveryRow, PartRow] | None, at: datetime) -> Step:
    for row in pending(conn, lane):
        parts = load_parts(conn, row.id)
        chosen = next_part(facts_of(parts))
        if chosen is None:
            continue
        if chosen.not_before is not None and chosen.not_before > at:
            due = chosen.not_before if ask is None else min(chosen.not_before, ask[1].not_before)
            return Wait(until=due)
        part = next(one for one in parts if one.n == chosen.n)
        intend(conn, row.id, part, at=at)
        return Send(part=outgoing(row, part, intent_at=at), job=row.job, run_id=row.run_id)
    return _wait_for(ask)


def intend(conn: Connection, delivery_id: str, part: PartRow, *, at: datetime) -> None:
    """Store that a part is about to be sent."""
    set_part(
        conn,
        delivery_id,
        part.n,
        state=PartState.SENDING,
        attempts=part.attempts + 1,
        intent_at=at,
        not_before=None,
        error=None,
        asked=0,
        told_at=None,
    )
    refresh(conn, delivery_id, at=at)


def hold_all(conn: Connection, lane: Lane, reason: str, *, at: datetime) -> Changed | Idle:
    """Hold what waits in a chat, some at a time: surely not sent, waiting for its account."""
    held = [hold_delivery(conn, row.id, reason, at=at) for row in pending(conn, lane, _AT_ONCE)]
    return Changed(changed=tuple(one for one in held if one is not None)) if held else Idle()


def _fail_all(conn: Connection, lane: Lane, reason: str, at: datetime) -> Step:
    failed = []
    for row in pending(conn, lane, _AT_ONCE):
        reject_waiting(conn, row.id, reason)
        failed.append(refresh(conn, row.id, at=at))
    return Changed(changed=tuple(one for one in failed if one is not None))
