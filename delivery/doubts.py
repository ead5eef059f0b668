"""What a person, or a person's message, settles: parts in doubt, and briefs that are to be sent again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, select, update

from delivery.chats import CHATS
from delivery.model import Address, DeliveryId, DeliveryKind, DeliveryState, PartKind, PartState
from delivery.ports import Settlement
from delivery.retry import first_ask
from delivery.rows import (
    DELIVERIES,
    PARTS,
    DeliveryRow,
    DeliverySummary,
    load_delivery,
    load_parts,
    refresh,
    set_delivery,
    set_part,
)
from delivery.settling import Recorded, conclude
from delivery.targets import LOCAL


class OutboxError(ValueError):
    """What was asked for cannot be done with this delivery. The message is one sentence with the way out."""


class Verdict(StrEnum):
    """What a person says about a delivery in doubt."""

    SENT = "sent"
    RESEND = "resend"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtfulPart:
    """A part that may have arrived, with the text that a person would have seen."""

    delivery_id: DeliveryId
    n: int
    kind: DeliveryKind
    part_kind: PartKind
    job: str | None
    text: str
    intent_at: datetime
    topic: str | None
    thread: str | None


def in_doubt_parts(conn: Connection, address: Address) -> list[DoubtfulPart]:
    """Return the parts in doubt in the chat of an address, oldest first.

    A message that quotes or threads under one of them is its receipt (`confirm_part`).
    """
    found = conn.execute(
        select(
            DELIVERIES.c.id,
            DELIVERIES.c.kind,
            DELIVERIES.c.job,
            DELIVERIES.c.topic,
            DELIVERIES.c.thread,
            PARTS.c.n,
            PARTS.c.kind.label("part_kind"),
            PARTS.c.text,
            PARTS.c.intent_at,
        )
        .join(PARTS, PARTS.c.delivery_id == DELIVERIES.c.id)
        .where(
            DELIVERIES.c.account == address.account,
            DELIVERIES.c.chat == address.chat,
            DELIVERIES.c.state.in_((DeliveryState.IN_DOUBT, DeliveryState.SENDING, DeliveryState.DEGRADED)),
            PARTS.c.state == PartState.IN_DOUBT,
        )
        .order_by(PARTS.c.intent_at, DELIVERIES.c.seq, PARTS.c.n)
    ).all()
    return [
        DoubtfulPart(
            delivery_id=DeliveryId(row.id),
            n=row.n,
            kind=DeliveryKind(row.kind),
            part_kind=PartKind(row.part_kind),
            job=row.job,
            text=row.text,
            intent_at=row.intent_at,
            topic=row.topic,
            thread=row.thread,
        )
        for row in found
    ]


def doubt_all(conn: Connection, reason: str, *, at: datetime) -> int:
    """Put in doubt whatever waits to be sent: it may have been sent already. Returns how many deliveries that are.

    The local page's messages are rows of the same database, so there nothing is in doubt.
    """
    waiting = conn.execute(
        select(PARTS.c.delivery_id, PARTS.c.n)
        .join(DELIVERIES, DELIVERIES.c.id == PARTS.c.delivery_id)
        .where(
            PARTS.c.state.in_((PartState.PENDING, PartState.SENDING, PartState.HELD)),
            DELIVERIES.c.account != LOCAL,
            DELIVERIES.c.chat.is_not(None),
        )
    ).all()
    for part in waiting:
        set_part(
            conn,
            part.delivery_id,
            part.n,
            state=PartState.IN_DOUBT,
            error=reason,
            intent_at=at,
            asked=0,
            told_at=None,
            not_before=first_ask(at, timedelta()),
        )
    touched = {part.delivery_id for part in waiting}
    for delivery_id in touched:
        refresh(conn, delivery_id, at=at)
    return len(touched)


def resolve(
    conn: Connection, delivery_id: str, verdict: str, at: datetime, *, settlement: Settlement | None = None
) -> Recorded:
    """Settle a delivery in doubt with what a person saw: "sent" (it arrived) or "resend" (it did not).

    "sent" has no message id to offer, so the delivery ends `degraded`. Raises OutboxError.
    """
    wanted = _verdict(verdict)
    row = load_delivery(conn, delivery_id)
    if row is None:
        raise OutboxError(f"there is no delivery {delivery_id}: `hermes-cron runs --json` lists their ids")
    doubtful = [part for part in load_parts(conn, delivery_id) if part.state == PartState.IN_DOUBT]
    if not doubtful:
        raise OutboxError(f"delivery {delivery_id} is {row.state}, not in doubt: there is nothing to settle")
    for part in doubtful:
        if wanted is Verdict.SENT:
            remark = "a person says that it arrived; its message id is not known"
            set_part(conn, row.id, part.n, state=PartState.SENT, error=None, degraded=remark, not_before=None)
        else:
            _again(conn, row.id, part.n)
    return conclude(conn, delivery_id, at=at, settlement=settlement)


def _verdict(text: str) -> Verdict:
    try:
        return Verdict(text)
    except ValueError:
        raise OutboxError(f'"{text}" is no verdict: say "sent" or "resend"') from None


def _again(conn: Connection, delivery_id: str, n: int) -> None:
    set_part(
        conn,
        delivery_id,
        n,
        state=PartState.PENDING,
        attempts=0,
        asked=0,
        error=None,
        told_at=None,
        not_before=None,
    )


def resend(conn: Connection, run_id: str, target: str | None, at: datetime) -> list[DeliverySummary]:
    """Queue again what of a run's brief was refused: nothing is composed, rendered or split again.

    A thread that stands half open is used again. Without `target` every failed or degraded delivery of the run
    is taken up. Raises OutboxError.
    """
    rows = conn.execute(select(DELIVERIES).where(DELIVERIES.c.run_id == run_id).order_by(DELIVERIES.c.seq)).all()
    if not rows:
        raise OutboxError(f"run {run_id} has no deliveries: `hermes-cron runs` lists the runs")
    chosen = [row for row in rows if target is None or target in (row.target, row.place, row.id)]
    if not chosen:
        places = ", ".join(row.target for row in rows)
        raise OutboxError(f"run {run_id} was not delivered to {target}: its targets are {places}")
    changed = [_resend_one(conn, row, at) for row in chosen]
    again = [summary for summary in changed if summary is not None]
    if not again:
        raise OutboxError(_nothing_to_resend(chosen))
    return again


def _nothing_to_resend(rows: Sequence[DeliveryRow]) -> str:
    states = ", ".join(f"{row.target} is {row.state}" for row in rows)
    doubtful = next((row.id for row in rows if row.state == DeliveryState.IN_DOUBT), None)
    way_out = "" if doubtful is None else f"; say what became of it: hermes-cron resolve {doubtful} sent|resend"
    return f"nothing of this run was refused: {states}{way_out}"


def _resend_one(conn: Connection, row: DeliveryRow, at: datetime) -> DeliverySummary | None:
    refused = [part for part in load_parts(conn, row.id) if part.state == PartState.REJECTED]
    if row.state not in (DeliveryState.FAILED, DeliveryState.DEGRADED) or not refused:
        return None
    if row.state == DeliveryState.DEGRADED and all(part.kind != PartKind.TEXT for part in refused):
        return None  # it arrived, only the thread did not open
    for part in refused:
        _again(conn, row.id, part.n)
        if row.chat is None:
            set_part(conn, row.id, part.n, state=PartState.HELD, error="the target is looked up again")
    if row.chat is None:
        set_delivery(conn, row.id, not_before=None)
    else:  # a person says: try that chat again
        conn.execute(update(CHATS).where(CHATS.c.account == row.account, CHATS.c.chat == row.chat).values(gone=None))
    return refresh(conn, row.id, at=at)
