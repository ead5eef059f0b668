"""What is known of single chats and accounts between two runs: moved, gone, to be left alone, up or down.

Functions on a Connection, for `db.write` and `db.read`. A wait that a platform asked for survives a restart.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select, update

from delivery.model import DeliveryKind, DeliveryState, PartState
from delivery.ports import FollowsMoves, Settlement
from delivery.rows import (
    DELIVERIES,
    PARTS,
    DeliverySummary,
    address_key,
    place_of,
    refresh,
    set_delivery,
    upsert,
)
from delivery.states import OPEN
from state import schema

ACCOUNTS = schema.accounts
CHATS = schema.chats
RECEIPTS = schema.receipts

UP, DOWN, UNKNOWN = "up", "down", "unknown"
MOVES_FOLLOWED = 8

_CHAT = select(CHATS.c.moved_to, CHATS.c.gone, CHATS.c.not_before)
_ACCOUNT = select(ACCOUNTS.c.state, ACCOUNTS.c.reason, ACCOUNTS.c.not_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a chat may be called: `account` is up, down or unknown; nothing before `not_before`; never if `gone`."""

    account: str
    reason: str | None
    not_before: datetime | None
    gone: str | None


def gate(conn: Connection, account: str, chat: str | None) -> Gate:
    """Read what stands between us and a chat (or the account alone)."""
    of_account = conn.execute(_ACCOUNT.where(ACCOUNTS.c.name == account)).one_or_none()
    of_chat = (
        None
        if chat is None
        else conn.execute(_CHAT.where(CHATS.c.account == account, CHATS.c.chat == chat)).one_or_none()
    )
    waits = [row.not_before for row in (of_account, of_chat) if row is not None and row.not_before is not None]
    return Gate(
        account=UNKNOWN if of_account is None else of_account.state,
        reason=None if of_account is None else of_account.reason,
        not_before=max(waits, default=None),
        gone=None if of_chat is None else of_chat.gone,
    )


def quiet_until(conn: Connection, account: str, chat: str, *, at: datetime) -> datetime | None:
    """Return until when no call of any kind may go to this chat, None if it may be called."""
    until = gate(conn, account, chat).not_before
    return until if until is not None and until > at else None


def throttle(conn: Connection, account: str, kind: str, chat: str | None, *, until: datetime, at: datetime) -> None:
    """Leave a chat (None: the whole account) alone until then. A longer wait that is stored already stays."""
    known = gate(conn, account, chat).not_before
    until = until if known is None else max(known, until)
    if chat is None:
        new = {"kind": kind, "state": UNKNOWN}
        upsert(conn, ACCOUNTS, {"name": account}, new, not_before=until, updated_at=at)
    else:
        upsert(conn, CHATS, {"account": account, "chat": chat}, {}, not_before=until)


# --- chats --------------------------------------------------------------------------------------------


def current_chat(conn: Connection, account: str, chat: str) -> str:
    """Return the chat's present id: the same, or what it moved to."""
    for _ in range(MOVES_FOLLOWED):
        moved = conn.execute(
            select(CHATS.c.moved_to).where(CHATS.c.account == account, CHATS.c.chat == chat)
        ).scalar_one_or_none()
        if moved is None or moved == chat:
            break
        chat = moved
    return chat


def chat_is_gone(conn: Connection, account: str, chat: str, reason: str) -> None:
    """Remember that nothing can be posted there (blocked, kicked, archived) until somebody writes there again."""
    upsert(conn, CHATS, {"account": account, "chat": chat}, {}, gone=reason)


def chat_is_back(conn: Connection, account: str, chat: str) -> bool:
    """Somebody wrote there: deliveries go there again. True if it had been gone."""
    back = update(CHATS).where(CHATS.c.account == account, CHATS.c.chat == chat, CHATS.c.gone.is_not(None))
    return conn.execute(back.values(gone=None)).rowcount > 0


def follow_move(
    conn: Connection,
    account: str,
    old: str,
    new: str,
    *,
    at: datetime,
    settlement: Settlement | None = None,
    keeps_messages: bool = False,
) -> list[DeliverySummary]:
    """Follow a chat to its new id: its row, what is not sent yet, flat key and sessions, in this transaction.

    The old id is not called again, whatever jobs.yaml still names. `keeps_messages`: the messages move along with
    their ids (Slack); on Telegram they start anew. Idempotent. Returns deliveries that thereby
    turned out to be a second one of their run to the same place.
    """
    if old == new:
        return []
    upsert(conn, CHATS, {"account": account, "chat": old}, {}, moved_to=new)
    conn.execute(  # a chat that moved back must not lead in circles
        update(CHATS).where(CHATS.c.account == account, CHATS.c.chat == new).values(moved_to=None)
    )
    if keeps_messages:
        conn.execute(update(RECEIPTS).where(RECEIPTS.c.account == account, RECEIPTS.c.chat == old).values(chat=new))
    dropped = _move_deliveries(conn, account, old, new, at)
    if isinstance(settlement, FollowsMoves):
        settlement.chat_moved(conn, account, old, new, at=at, keeps_messages=keeps_messages)
    return dropped


def _move_deliveries(conn: Connection, account: str, old: str, new: str, at: datetime) -> list[DeliverySummary]:
    rows = conn.execute(
        select(DELIVERIES).where(
            DELIVERIES.c.account == account, DELIVERIES.c.chat == old, DELIVERIES.c.state.in_(OPEN)
        )
    ).all()
    dropped = []
    for row in rows:
        key = address_key(place_of(row)).replace(f"{account}|{old}|", f"{account}|{new}|", 1)
        if is_taken(conn, row.run_id, key, but=row.id):
            dropped += drop_as_second(conn, row.id, f"the same place as another target: {old} is {new} now", at)
        else:
            set_delivery(conn, row.id, chat=new, address_key=key, updated_at=at)
    return dropped


def is_taken(conn: Connection, run_id: str | None, key: str, *, but: str) -> bool:
    """Whether the run has another delivery to this address already."""
    return run_id is not None and (
        conn.execute(
            select(DELIVERIES.c.id).where(
                DELIVERIES.c.run_id == run_id, DELIVERIES.c.address_key == key, DELIVERIES.c.id != but
            )
        ).first()
        is not None
    )


def drop_as_second(conn: Connection, delivery_id: str, reason: str, at: datetime) -> list[DeliverySummary]:
    """Fail what is left of a delivery that would be the second of its run at one place."""
    reject_waiting(conn, delivery_id, reason)
    changed = refresh(conn, delivery_id, at=at)
    return [] if changed is None else [changed]


def reject_waiting(conn: Connection, delivery_id: str, reason: str) -> None:
    """Give up the parts of a delivery that surely were not sent."""
    conn.execute(
        update(PARTS)
        .where(PARTS.c.delivery_id == delivery_id, PARTS.c.state.in_((PartState.PENDING, PartState.HELD)))
        .values(state=PartState.REJECTED, error=reason, not_before=None)
    )


# --- accounts -----------------------------------------------------------------------------------------


def account_is_unknown(conn: Connection, name: str, kind: str, *, at: datetime) -> None:
    """Forget what the last process knew about the connection; the workspace and a flood wait stay."""
    upsert(conn, ACCOUNTS, {"name": name}, {}, kind=kind, state=UNKNOWN, reason=None, updated_at=at)


def account_is_down(conn: Connection, name: str, kind: str, reason: str, *, at: datetime) -> None:
    """Mark an account as not usable now; its deliveries are held, everybody else's go on."""
    upsert(conn, ACCOUNTS, {"name": name}, {}, kind=kind, state=DOWN, reason=reason, updated_at=at)


def account_is_up(conn: Connection, name: str, kind: str, workspace: str, *, at: datetime) -> None:
    """Mark an account as connected, and take up again what was held for it."""
    upsert(conn, ACCOUNTS, {"name": name}, {}, kind=kind, state=UP, reason=None, workspace=workspace, updated_at=at)
    conn.execute(
        update(DELIVERIES)
        .where(DELIVERIES.c.account == name, DELIVERIES.c.workspace.is_(None), DELIVERIES.c.state.in_(OPEN))
        .values(workspace=workspace)
    )
    _release(conn, name, at)


def note_hearing(conn: Connection, name: str, trouble: str | None) -> None:
    """Note why an account that can send cannot hear; None: it is being tried again."""
    reason = None if trouble is None else f"it can send, but not hear: {trouble}"
    conn.execute(update(ACCOUNTS).where(ACCOUNTS.c.name == name).values(reason=reason))


def _release(conn: Connection, account: str, at: datetime) -> None:
    held = select(DELIVERIES.c.id).where(
        DELIVERIES.c.account == account,
        DELIVERIES.c.state.in_(OPEN),
        DELIVERIES.c.chat.is_not(None),
        DELIVERIES.c.id.in_(select(PARTS.c.delivery_id).where(PARTS.c.state == PartState.HELD)),
    )
    for delivery_id in conn.execute(held).scalars().all():
        conn.execute(
            update(PARTS)
            .where(PARTS.c.delivery_id == delivery_id, PARTS.c.state == PartState.HELD)
            .values(state=PartState.PENDING, error=None)
        )
        refresh(conn, delivery_id, at=at)


def hold_delivery(conn: Connection, delivery_id: str, reason: str, *, at: datetime) -> DeliverySummary | None:
    """Hold what is left of a delivery: surely not sent, waiting for its account."""
    conn.execute(
        update(PARTS)
        .where(PARTS.c.delivery_id == delivery_id, PARTS.c.state == PartState.PENDING)
        .values(state=PartState.HELD, error=reason)
    )
    return refresh(conn, delivery_id, at=at)


def stored_workspaces(conn: Connection) -> dict[str, str]:
    """Return the workspace that each account had when it was last connected, for presetting at start."""
    known = select(ACCOUNTS.c.name, ACCOUNTS.c.workspace).where(ACCOUNTS.c.workspace.is_not(None))
    return {row.name: row.workspace for row in conn.execute(known)}


def stored_moves(conn: Connection) -> dict[tuple[str, str], str]:
    """Return the chats that have another id now: (account, old) -> new, moves of moves followed."""
    rows = conn.execute(select(CHATS.c.account, CHATS.c.chat).where(CHATS.c.moved_to.is_not(None))).all()
    return {(row.account, row.chat): current_chat(conn, row.account, row.chat) for row in rows}


def found_places(conn: Connection) -> dict[str, tuple[str, str, str | None]]:
    """Return where each target text was found the last time, as (account, chat, topic); moves followed."""
    newest = (
        select(func.max(DELIVERIES.c.seq))
        .where(DELIVERIES.c.chat.is_not(None), DELIVERIES.c.kind == DeliveryKind.BRIEF)
        .group_by(DELIVERIES.c.place)
    )
    rows = conn.execute(
        select(DELIVERIES.c.place, DELIVERIES.c.account, DELIVERIES.c.chat, DELIVERIES.c.topic).where(
            DELIVERIES.c.seq.in_(newest)
        )
    ).all()
    return {row.place: (row.account, current_chat(conn, row.account, row.chat), row.topic) for row in rows}


def unresolved(conn: Connection, account: str, *, at: datetime) -> tuple[list[str], datetime | None]:
    """Return the deliveries of an account whose target is to be looked up now, and when the next one is due."""
    waiting = conn.execute(
        select(DELIVERIES.c.id, DELIVERIES.c.not_before)
        .where(
            DELIVERIES.c.account == account,
            DELIVERIES.c.chat.is_(None),
            DELIVERIES.c.state == DeliveryState.HELD,
        )
        .order_by(DELIVERIES.c.seq)
    ).all()
    due = [row.id for row in waiting if row.not_before is None or row.not_before <= at]
    later = [row.not_before for row in waiting if row.not_before is not None and row.not_before > at]
    return due, min(later, default=None)
