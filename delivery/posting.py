"""Posts that are rows of our own database: intent, message, receipt and settlement are one transaction."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from delivery.model import DeliveryKind, PartKind, PartState, Rejected
from delivery.ports import PartRefused, PostsInTransaction, Settlement
from delivery.results import reject, try_later
from delivery.rows import DeliveryRow, PartRow, facts_of, load_delivery, load_parts, outgoing
from delivery.settling import Recorded, accept, conclude
from delivery.states import next_part
from delivery.steps import Idle, Lane, Wait, intend, pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A delivery was posted, as far as it can be."""

    recorded: Recorded


def post_next(
    conn: Connection, lane: Lane, platform: PostsInTransaction, settlement: Settlement, *, at: datetime
) -> Posted | Wait | Idle:
    """Post the whole of the oldest waiting delivery of a chat. What the platform raises undoes all of it."""
    for row in pending(conn, lane):
        chosen = next_part(facts_of(load_parts(conn, row.id)))
        if chosen is None:
            continue
        if chosen.not_before is not None and chosen.not_before > at:
            return Wait(until=chosen.not_before)
        _post_all(conn, row, platform, at)
        return Posted(recorded=conclude(conn, row.id, at=at, settlement=settlement))
    return Idle()


def _post_all(conn: Connection, row: DeliveryRow, platform: PostsInTransaction, at: datetime) -> None:
    for part in load_parts(conn, row.id):
        if part.state != PartState.PENDING:
            continue
        _post(conn, row, part, platform, at)
        if part.kind != PartKind.TEXT:
            row = load_delivery(conn, row.id) or row  # it says where the parts after it go


def _post(conn: Connection, row: DeliveryRow, part: PartRow, platform: PostsInTransaction, at: datetime) -> None:
    is_brief = row.kind == DeliveryKind.BRIEF and part.kind == PartKind.TEXT
    job = row.job if is_brief else None
    try:
        receipt = platform.post(conn, outgoing(row, part, intent_at=at), job=job, at=at)
    except PartRefused as refused:
        reject(conn, row, part, Rejected(reason=refused.reason))
    else:
        accept(conn, row, part, receipt, degraded=None, attempts=part.attempts + 1, intent_at=at)


def postpone(conn: Connection, lane: Lane, reason: str, settlement: Settlement, *, at: datetime) -> Recorded:
    """Try the oldest waiting delivery of a chat later: posting it failed, and nothing of that happened."""
    for row in pending(conn, lane):
        parts = load_parts(conn, row.id)
        chosen = next_part(facts_of(parts))
        if chosen is None:
            continue
        intend(conn, row.id, next(part for part in parts if part.n == chosen.n), at=at)
        part = next(part for part in load_parts(conn, row.id) if part.n == chosen.n)
        try_later(conn, row, part, reason, at)
        return conclude(conn, row.id, at=at, settlement=settlement)
    return Recorded()
