"""Confirming a part, and what follows when a delivery has settled. Functions on a Connection."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from delivery.model import DeliveryId, PartKind, PartState, Receipt
from delivery.ports import Settled, Settlement, SettlementFailed
from delivery.rows import (
    DeliveryRow,
    DeliverySummary,
    PartRow,
    add_receipt,
    facts_of,
    has_receipt,
    load_delivery,
    load_parts,
    refresh,
    set_delivery,
    set_part,
)
from delivery.states import is_settled


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedOwed:
    """A settlement that failed: the receipt stays, the seed is still owed."""

    delivery_id: DeliveryId
    job: str | None
    surface: str | None
    session: str | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What one transaction did, to be logged and told once it is durable."""

    changed: tuple[DeliverySummary, ...] = field(default=())
    owed: SeedOwed | None = None


def confirm_part(
    conn: Connection, delivery_id: str, n: int, receipt: Receipt, *, at: datetime, settlement: Settlement
) -> Recorded:
    """Store the proof that a part arrived: the platform found it, or a person answered under it.

    From any state; the part is never sent again. The settlement runs in the same transaction, in a savepoint.
    A part that a person called sent has none yet, and gets it. Idempotent: a part that has its receipt keeps it.
    """
    row = load_delivery(conn, delivery_id)
    part = None if row is None else _part(conn, delivery_id, n)
    if row is None or part is None or has_receipt(conn, delivery_id, n):
        return Recorded()
    accept(conn, row, part, receipt, degraded=None)
    return conclude(conn, delivery_id, at=at, settlement=settlement)


def _part(conn: Connection, delivery_id: str, n: int) -> PartRow | None:
    return next((part for part in load_parts(conn, delivery_id) if part.n == n), None)


def accept(
    conn: Connection,
    row: DeliveryRow,
    part: PartRow,
    receipt: Receipt,
    *,
    degraded: str | None,
    **more: object,
) -> None:
    """Write a receipt and mark its part sent (`more`: its columns); an opening says where the parts after it go."""
    add_receipt(conn, row.id, part.n, receipt)
    remarks = dict.fromkeys(remark for remark in (part.degraded, degraded) if remark)
    set_part(
        conn,
        row.id,
        part.n,
        state=PartState.SENT,
        error=None,
        degraded="; ".join(remarks) or None,
        not_before=None,
        **more,
    )
    if row.workspace is None:
        set_delivery(conn, row.id, workspace=receipt.address.workspace)
    if part.kind == PartKind.HEADER:
        set_delivery(conn, row.id, root=receipt.address.message, thread=receipt.address.message)
    elif part.kind == PartKind.TOPIC:
        topic = receipt.address.topic if receipt.address.topic is not None else receipt.address.message
        set_delivery(conn, row.id, root=topic, topic=topic)


def conclude(conn: Connection, delivery_id: str, *, at: datetime, settlement: Settlement | None) -> Recorded:
    """Let the delivery follow its parts and, if it has settled, write what is owed, in a savepoint."""
    changed = refresh(conn, delivery_id, at=at)
    owed = None if settlement is None else settle(conn, delivery_id, at=at, settlement=settlement)
    return Recorded(changed=() if changed is None else (changed,), owed=owed)


def settle(conn: Connection, delivery_id: str, *, at: datetime, settlement: Settlement) -> SeedOwed | None:
    """Call the settlement if nothing of the delivery is on its way and something is confirmed.

    Its error undoes what it wrote, and nothing else; it is returned, so that it can be told after the commit.
    """
    row = load_delivery(conn, delivery_id)
    if row is None or not is_settled(facts_of(load_parts(conn, delivery_id))):
        return None
    try:
        with conn.begin_nested():
            settlement.settled(conn, Settled(delivery_id=DeliveryId(delivery_id), at=at))
    except SettlementFailed as failed:
        return _owed(row, failed.reason, failed.surface, failed.session)
    except Exception as error:  # noqa: BLE001 - around one delivery: a seed's bug must not cost the receipt
        return _owed(row, f"{type(error).__name__}: {error}", None, None)
    return None


def _owed(row: DeliveryRow, error: str, surface: str | None, session: str | None) -> SeedOwed:
    return SeedOwed(
        delivery_id=DeliveryId(row.id),
        job=row.job,
        surface=surface if surface is not None else row.surface,
        session=session if session is not None else (row.thread_session or row.flat_session or row.session_id),
        error=error,
    )
