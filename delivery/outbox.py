"""The outbox: what has to be sent, durable before anything is called. Functions on a Connection.

They run inside `db.write` (or `db.read`), touch nothing but rows, and may be run again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, select, update

from delivery.chats import current_chat
from delivery.doubts import DoubtfulPart, OutboxError, Verdict, in_doubt_parts, resend, resolve
from delivery.model import (
    Address,
    DeliveryId,
    DeliveryKind,
    DeliveryState,
    InboundId,
    PartKind,
    PartState,
    Surface,
)
from delivery.ports import Opening
from delivery.render.parts import RenderedPart
from delivery.retry import first_ask
from delivery.rows import (
    DELIVERIES,
    PARTS,
    DeliverySummary,
    address_key,
    insert_once,
    load_delivery,
    marker_of,
    next_seq,
    refresh,
    seeds_owed,
    set_delivery,
    set_part,
)
from delivery.settling import Recorded, confirm_part
from delivery.states import CLOSED, OPEN

__all__ = [
    "CLOSED",
    "DeliverySummary",
    "DoubtfulPart",
    "NewDelivery",
    "OutboxError",
    "Recorded",
    "Verdict",
    "confirm_part",
    "enqueue",
    "fail",
    "in_doubt_parts",
    "locate",
    "on_its_way",
    "recover",
    "resend",
    "resolve",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """The duty to get one text to one place. See the table `deliveries`.

    `address` None: the target cannot be resolved now; it is held and resolved when its account is up, from
    `place` (the target as `parse_target` reads it; default: `target`), and a thread is then opened under `title`.
    `error` is final: the delivery is born `failed`.
    """

    id: DeliveryId
    kind: DeliveryKind
    run_id: str | None
    inbound_id: InboundId | None
    session_id: str | None
    job: str | None
    target: str
    account: str
    surface: Surface
    continues: bool
    address: Address | None
    parts: tuple[RenderedPart, ...]
    opening: Opening | None = None
    place: str | None = None
    title: str | None = None
    error: str | None = None


# --- in -----------------------------------------------------------------------------------------------


def enqueue(conn: Connection, deliveries: Iterable[NewDelivery], *, at: datetime) -> tuple[DeliveryId, ...]:
    """Store deliveries with their parts, in the caller's transaction; return the ids that are new.

    One for each (run, address) and each inbound: what is there already is left as it is, so a second call
    changes nothing. A chat that moved is replaced by where it moved to.
    """
    return tuple(new.id for new in deliveries if _add(conn, new, at))


def _add(conn: Connection, new: NewDelivery, at: datetime) -> bool:
    address = _current(conn, new.address)
    is_in_thread = address is not None and address.root is not None
    values = {
        "id": new.id,
        "kind": new.kind,
        "run_id": new.run_id,
        "inbound_id": new.inbound_id,
        "session_id": new.session_id,
        "job": new.job,
        "target": new.target,
        "place": new.target if new.place is None else new.place,
        "title": new.title if new.title is not None else (new.opening and new.opening.text),
        "seq": next_seq(conn),
        "surface": new.surface,
        "continues": new.continues,
        "state": DeliveryState.PENDING,
        "account": new.account,
        "address_key": new.target if address is None else address_key(address),
        "created_at": at,
        "updated_at": at,
        **place_columns(address),
        **seeds_owed(kind=new.kind, continues=new.continues, is_in_thread=is_in_thread),
    }
    if not insert_once(conn, DELIVERIES, values):
        return False
    state, error = _birth(new)
    if new.opening is not None and not is_in_thread:
        _add_opening(conn, new.id, new.opening, state, error)
    for n, part in enumerate(new.parts, start=1):
        _add_part(conn, new.id, n, part, state, error)
    refresh(conn, new.id, at=at)
    if new.error is not None:  # also where there is no part to say it
        set_delivery(conn, new.id, error=new.error)
    return True


def _current(conn: Connection, address: Address | None) -> Address | None:
    if address is None:
        return None
    return replace(address, chat=current_chat(conn, address.account, address.chat))


def _birth(new: NewDelivery) -> tuple[PartState, str | None]:
    if new.error is not None:
        return PartState.REJECTED, new.error
    if new.address is None:
        return PartState.HELD, f"waiting until {new.account} can say where {new.target} is"
    return PartState.PENDING, None


def place_columns(address: Address | None) -> dict[str, object]:
    """Return the columns that say where a delivery goes; all null while that is not known."""
    return {
        "workspace": None if address is None else (address.workspace or None),
        "chat": None if address is None else address.chat,
        "chat_kind": None if address is None else address.chat_kind,
        "topic": None if address is None else address.topic,
        "thread": None if address is None else address.root,
    }


def _add_opening(conn: Connection, delivery_id: str, opening: Opening, state: PartState, error: str | None) -> None:
    part = RenderedPart(payload=opening.payload, text=opening.text)
    _add_part(conn, delivery_id, 0, part, state, error, kind=opening.kind)


def _add_part(
    conn: Connection,
    delivery_id: str,
    n: int,
    part: RenderedPart,
    state: PartState,
    error: str | None,
    kind: PartKind = PartKind.TEXT,
) -> None:
    insert_once(
        conn,
        PARTS,
        {
            "delivery_id": delivery_id,
            "n": n,
            "kind": kind,
            "state": state,
            "payload": dict(part.payload),
            "text": part.text,
            "marker": marker_of(delivery_id, n),
            "degraded": part.degraded,
            "error": error,
        },
    )


def locate(
    conn: Connection, delivery_id: str, address: Address, opening: Opening | None, *, at: datetime
) -> DeliverySummary | None:
    """Give a held delivery its place, now that the target is resolved, and queue it.

    If the run has one to that place already, this one fails as its second.
    """
    row = load_delivery(conn, delivery_id)
    if row is None or row.chat is not None or row.state not in OPEN:
        return None
    address = replace(address, chat=current_chat(conn, address.account, address.chat))
    key = address_key(address)
    same = (
        None
        if row.run_id is None
        else conn.execute(
            select(DELIVERIES.c.target).where(
                DELIVERIES.c.run_id == row.run_id, DELIVERIES.c.address_key == key, DELIVERIES.c.id != row.id
            )
        ).scalar()
    )
    if same is not None:
        return fail(conn, delivery_id, f"the same place as {same}, where this run delivers already", at=at)
    set_delivery(conn, delivery_id, address_key=key, not_before=None, updated_at=at, **place_columns(address))
    if address.root is not None and row.flat_seeded is False:
        set_delivery(conn, delivery_id, flat_seeded=None)
    if opening is not None and address.root is None:
        _add_opening(conn, delivery_id, opening, PartState.PENDING, None)
    _set_waiting(conn, delivery_id, (PartState.HELD,), PartState.PENDING, None)
    return refresh(conn, delivery_id, at=at)


def fail(conn: Connection, delivery_id: str, reason: str, *, at: datetime) -> DeliverySummary | None:
    """Give up what surely was not sent of a delivery."""
    _set_waiting(conn, delivery_id, (PartState.PENDING, PartState.HELD), PartState.REJECTED, reason)
    return refresh(conn, delivery_id, at=at)


def _set_waiting(
    conn: Connection, delivery_id: str, old: Sequence[PartState], new: PartState, error: str | None
) -> None:
    conn.execute(
        update(PARTS)
        .where(PARTS.c.delivery_id == delivery_id, PARTS.c.state.in_(old))
        .values(state=new, error=error, not_before=None)
    )


def on_its_way(conn: Connection, account: str, chat: str) -> list[DeliveryId]:
    """Return the deliveries to a chat that are being sent now: an answer that arrives meanwhile may mean one of them.

    Those of which nothing was sent and nothing is under way are not among them.
    """
    begun = select(PARTS.c.n).where(
        PARTS.c.delivery_id == DELIVERIES.c.id, PARTS.c.state.in_((PartState.SENDING, PartState.SENT))
    )
    rows = conn.execute(
        select(DELIVERIES.c.id)
        .where(
            DELIVERIES.c.account == account,
            DELIVERIES.c.chat == chat,
            DELIVERIES.c.state.in_((DeliveryState.PENDING, DeliveryState.SENDING)),
            begun.exists(),
        )
        .order_by(DELIVERIES.c.seq)
    )
    return [DeliveryId(one) for one in rows.scalars()]


# --- at start -----------------------------------------------------------------------------------------


def recover(
    conn: Connection, *, at: datetime, request_timeout: timedelta = timedelta(seconds=30)
) -> list[DeliverySummary]:
    """Do what a restart does with each state that is not final. Only before anything is sent.

    sending: the process died around the call, so the part is in doubt, and the platform is asked once that
    means something. pending is sent and in_doubt asked by the dispatcher; held goes on when the account is up.
    """
    sending = conn.execute(
        select(PARTS.c.delivery_id, PARTS.c.n, PARTS.c.intent_at).where(PARTS.c.state == PartState.SENDING)
    ).all()
    changed = []
    for part in sending:
        intent_at = part.intent_at or at
        set_part(
            conn,
            part.delivery_id,
            part.n,
            state=PartState.IN_DOUBT,
            error="the program ended while this was being sent",
            asked=0,
            told_at=None,
            not_before=max(at, first_ask(intent_at, request_timeout)),
        )
        changed.append(refresh(conn, part.delivery_id, at=at))
    return [summary for summary in changed if summary is not None]
