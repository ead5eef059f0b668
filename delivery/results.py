"""What became of a send, or of a question about one. Functions on a Connection, each one transaction's work."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from delivery.chats import (
    account_is_down,
    chat_is_gone,
    follow_move,
    hold_delivery,
    reject_waiting,
    throttle,
)
from delivery.model import (
    Absent,
    CannotTell,
    FindResult,
    InDoubt,
    NotSent,
    OutgoingPart,
    PartKind,
    PartState,
    Receipt,
    Rejected,
    SendResult,
    Sent,
    Throttled,
)
from delivery.ports import Settlement
from delivery.retry import ASK_AFTER, SENDS, first_ask, next_ask, next_try
from delivery.rows import (
    DeliveryRow,
    DeliverySummary,
    PartRow,
    load_delivery,
    load_parts,
    set_part,
)
from delivery.settling import Recorded, accept, conclude

MOVES_FOLLOWED = 5
LONGEST_WAIT = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """What is needed beside the rows to record a result of one account."""

    kind: str  # of the platform
    request_timeout: timedelta
    settlement: Settlement


def record_result(conn: Connection, part: OutgoingPart, result: SendResult, by: Recorder, *, at: datetime) -> Recorded:
    """Store how one send ended, with whatever follows from it, in one transaction. Idempotent."""
    row = load_delivery(conn, part.delivery_id)
    stored = _stored(conn, part)
    if row is None or stored is None or stored.state == PartState.SENT:
        return Recorded()
    if isinstance(result, Sent):
        if not is_proof(result.receipt):
            result = InDoubt(reason="the platform gave no message id")
        else:
            accept(conn, row, stored, result.receipt, degraded=result.degraded)
            return conclude(conn, row.id, at=at, settlement=by.settlement)
    if stored.state != PartState.SENDING:
        return Recorded()
    others = _unsent(conn, row, stored, result, by, at)
    done = conclude(conn, row.id, at=at, settlement=by.settlement)
    return Recorded(changed=(*others, *done.changed), owed=done.owed)


def _stored(conn: Connection, part: OutgoingPart) -> PartRow | None:
    return next((one for one in load_parts(conn, part.delivery_id) if one.n == part.n), None)


def is_proof(receipt: Receipt) -> bool:
    """Whether a receipt names a message; an id that is empty or 0 confirms nothing."""
    return receipt.address.message not in (None, "", "0")


def _unsent(
    conn: Connection, row: DeliveryRow, part: PartRow, result: SendResult, by: Recorder, at: datetime
) -> list[DeliverySummary]:
    match result:
        case Rejected(moved_to=str(new)) if new != row.chat and part.attempts <= MOVES_FOLLOWED:
            set_part(conn, row.id, part.n, state=PartState.PENDING)
            return follow_move(conn, row.account, row.chat, new, at=at, settlement=by.settlement)
        case Rejected():
            reject(conn, row, part, result)
        case Throttled():
            chat = None if result.whole_account else row.chat
            throttle(conn, row.account, by.kind, chat, until=at + _wait_of(result), at=at)
            _untried(conn, row, part, PartState.PENDING)
        case NotSent(account_is_down=True):
            account_is_down(conn, row.account, by.kind, result.reason, at=at)
            _untried(conn, row, part, PartState.PENDING)
            hold_delivery(conn, row.id, result.reason, at=at)
        case NotSent():
            try_later(conn, row, part, result.reason, at)
        case InDoubt():
            set_part(
                conn,
                row.id,
                part.n,
                state=PartState.IN_DOUBT,
                error=result.reason,
                not_before=max(at, first_ask(part.intent_at, by.request_timeout)),
            )
        case Sent():  # dealt with before
            raise AssertionError("a confirmed part is not unsent")
    return []


def _wait_of(throttled: Throttled) -> timedelta:
    seconds = throttled.retry_after
    if not math.isfinite(seconds) or seconds < 0:
        seconds = 1.0
    return min(timedelta(seconds=min(seconds, LONGEST_WAIT.total_seconds())), LONGEST_WAIT)


def _untried(conn: Connection, row: DeliveryRow, part: PartRow, state: PartState) -> None:
    """Put a part back as if it had not been tried: a refusal that is not its own fault is no attempt."""
    set_part(conn, row.id, part.n, state=state, attempts=max(part.attempts - 1, 0), error=None)


def try_later(conn: Connection, row: DeliveryRow, part: PartRow, reason: str, at: datetime) -> None:
    """Wait, longer each time, with a part that surely was not sent; after very many tries give it up."""
    due = next_try(SENDS, attempts=part.attempts, at=at)
    if due is None:
        given_up = f"given up after {part.attempts} tries: {reason}"
        set_part(conn, row.id, part.n, state=PartState.REJECTED, error=given_up)
    else:
        set_part(conn, row.id, part.n, state=PartState.PENDING, error=reason, not_before=due)


def record_find(conn: Connection, part: OutgoingPart, result: FindResult, by: Recorder, *, at: datetime) -> Recorded:
    """Store what the platform said about a part in doubt. Only two "absent" make it be sent again."""
    row = load_delivery(conn, part.delivery_id)
    stored = _stored(conn, part)
    if row is None or stored is None or stored.state != PartState.IN_DOUBT:
        return Recorded()
    if isinstance(result, Receipt) and not is_proof(result):
        result = CannotTell(reason="the platform gave no message id")
    match result:
        case Receipt():
            accept(conn, row, stored, result, degraded=None)
        case Absent() if stored.asked == 0:
            set_part(conn, row.id, stored.n, asked=1, not_before=at + ASK_AFTER)
        case Absent():
            set_part(conn, row.id, stored.n, state=PartState.PENDING, asked=0, told_at=None, not_before=None)
        case CannotTell():
            _cannot_tell(conn, row, stored, result.reason, at)
    return conclude(conn, row.id, at=at, settlement=by.settlement)


def _cannot_tell(conn: Connection, row: DeliveryRow, part: PartRow, reason: str, at: datetime) -> None:
    """Hold it for a person, and go on asking at growing intervals: the platform may be able to tell later.

    An opening may be made once more instead: an empty topic is harmless, a missing brief is not.
    """
    if part.kind != PartKind.TEXT and part.degraded is None:
        remark = "the thread was opened a second time, since the first may stand empty"
        set_part(conn, row.id, part.n, state=PartState.PENDING, degraded=remark, asked=0, error=None, not_before=None)
        return
    if part.kind != PartKind.TEXT:
        reason = f"posted flat, since it cannot be told whether the thread was opened: {reason}"
    set_part(
        conn,
        row.id,
        part.n,
        error=reason,
        told_at=part.told_at if part.told_at is not None else at,
        not_before=next_ask(intent_at=part.intent_at, at=at),
    )


def put_back(conn: Connection, part: OutgoingPart, by: Recorder, *, at: datetime) -> Recorded:
    """Take an intent back: the call was not made. It counts as no attempt."""
    row = load_delivery(conn, part.delivery_id)
    stored = _stored(conn, part)
    if row is None or stored is None or stored.state != PartState.SENDING:
        return Recorded()
    _untried(conn, row, stored, PartState.PENDING)
    return conclude(conn, row.id, at=at, settlement=by.settlement)


def reject(conn: Connection, row: DeliveryRow, part: PartRow, result: Rejected) -> None:
    """Give a part up for good; where only the thread could not be opened, the brief is posted flat."""
    is_opening = part.kind != PartKind.TEXT
    reason = f"posted flat: {result.reason}" if is_opening and not result.chat_is_gone else result.reason
    set_part(conn, row.id, part.n, state=PartState.REJECTED, error=reason)
    if result.chat_is_gone:
        chat_is_gone(conn, row.account, row.chat, result.reason)
        reject_waiting(conn, row.id, result.reason)
