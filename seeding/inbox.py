"""Durable intake: what a person wrote is committed before the platform is told that we have it."""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select, update

from delivery.model import Address, ChatKind, DeliveryKind, Inbound
from seeding.model import ChatRules
from seeding.payload import from_payload, to_payload
from seeding.ports import Rulebook, Store
from state.clock import Now
from state.schema import deliveries, receipts, turns
from state.schema import inbound as table

log = logging.getLogger(__name__)


class InboundState(StrEnum):
    """How far a message is. What a restart does with each state that is not final:

    stored: route it. routed: ask the agent. answering: look at its delivery; without one the agent is asked
    again, twice in all. ignored, answered and gave_up are final.
    """

    STORED = "stored"
    ROUTED = "routed"
    IGNORED = "ignored"
    ANSWERING = "answering"
    ANSWERED = "answered"
    GAVE_UP = "gave_up"


ASLEEP = "it woke nothing"
STRANGER = "a stranger"
COMMAND = "a command"


class Standing(StrEnum):
    """Whether somebody is heard."""

    HEARD = "heard"
    STRANGER = "stranger"
    BOT = "bot"


def standing_of(inbound: Inbound, rules: ChatRules) -> Standing:
    """Say whether the author of a message is heard in this chat. Bots never are."""
    if inbound.author.is_bot:
        return Standing.BOT
    if rules.everyone:
        return Standing.HEARD
    is_heard = rules.is_delivered_to if rules.allow is None else inbound.author.id in rules.allow
    return Standing.HEARD if is_heard else Standing.STRANGER


class Inbox:
    """Hears for every platform. `heard` is called, in the event loop, when something new is durable."""

    def __init__(self, db: Store, rules: Rulebook, *, now: Now, heard: Callable[[], None]) -> None:
        self._db = db
        self._rules = rules
        self._now = now
        self._heard = heard

    async def hear(self, inbound: Inbound) -> None:
        """Store a message; return when it is committed. See `delivery.ports.Hear`.

        A redelivery, an edit without a change, another bot and the second event kind of one post start nothing
        anew; what a second event kind adds ("it mentions us") is merged. A stranger's words are not stored.
        """
        if not inbound.address.message:
            # It could not be told from its own repetition, and refusing it would make the platform repeat it.
            log.warning("A message without an id is dropped.", extra={"action": "nameless_dropped", **_facts(inbound)})
            return
        standing = self._standing(inbound)
        if standing is Standing.BOT:
            log.debug("Another bot is not heard.", extra={"action": "bot_dropped", **_facts(inbound)})
            return
        at = self._now()
        is_new = await self._db.write(lambda conn: store(conn, inbound, standing, at=at))
        if not is_new:
            return
        if standing is Standing.STRANGER:
            log.info("A stranger is not heard.", extra={"action": "stranger_dropped", **_facts(inbound)})
            return
        self._heard()

    def _standing(self, inbound: Inbound) -> Standing:
        rules = self._rules.for_chat(inbound.address)
        if inbound.copied_root is not None and not rules.is_delivered_to:
            channel = replace(inbound.address, chat=inbound.copied_root[0], chat_kind=ChatKind.CHANNEL, topic=None)
            rules = replace(rules, is_delivered_to=self._rules.for_chat(channel).is_delivered_to)
        return standing_of(inbound, rules)


# --- rows ---------------------------------------------------------------------------------------------

_FIND = select(table).where(
    table.c.account == bindparam("account"),
    table.c.workspace == bindparam("workspace"),
    table.c.chat == bindparam("chat"),
    table.c.message == bindparam("message"),
)
_INSERT = insert(table)
_REVISE = (
    update(table)
    .where(table.c.id == bindparam("which"))
    .values(
        payload=bindparam("content"),
        fingerprint=bindparam("print"),
        mentioned=bindparam("is_mentioned"),
        state=bindparam("to"),
        reason=bindparam("why"),
        updated_at=bindparam("when"),
    )
)
_REPRINT = update(table).where(table.c.id == bindparam("which")).values(fingerprint=bindparam("print"))
_RETEXT = update(turns).where(turns.c.inbound_id == bindparam("which")).values(text=bindparam("to"))


def store(conn: Connection, inbound: Inbound, standing: Standing, *, at: datetime) -> bool:
    """Write a message down, once. True if there is something new in it."""
    address = inbound.address
    assert address.message is not None
    row = _find(conn, address, address.message)
    if row is None:
        _insert(conn, inbound, address.message, standing, at=at)
        return True
    if standing is Standing.STRANGER:
        return False
    if inbound.is_edit:
        return _edit(conn, row, inbound, at=at)
    return _merge(conn, row, inbound, at=at)


def _find(conn: Connection, address: Address, message: str) -> Row[Any] | None:
    params = {"account": address.account, "workspace": address.workspace, "chat": address.chat, "message": message}
    return conn.execute(_FIND, params).one_or_none()


def _insert(conn: Connection, inbound: Inbound, message: str, standing: Standing, *, at: datetime) -> None:
    is_heard = standing is Standing.HEARD
    conn.execute(
        _INSERT,
        {
            "account": inbound.address.account,
            "workspace": inbound.address.workspace,
            "chat": inbound.address.chat,
            "message": message,
            "payload": to_payload(inbound if is_heard else without_text(inbound)),
            "fingerprint": fingerprint(inbound.text),
            "mentioned": inbound.mentioned,
            "state": InboundState.STORED if is_heard else InboundState.IGNORED,
            "reason": None if is_heard else STRANGER,
            "attempts": 0,
            "at": inbound.at,
            "received_at": at,
            "updated_at": at,
        },
    )


def _merge(conn: Connection, row: Row[Any], inbound: Inbound, *, at: datetime) -> bool:
    """Take from a second event of the same post what the first did not say."""
    before = from_payload(row.payload)
    merged = replace(
        inbound,
        mentioned=before.mentioned or inbound.mentioned,
        answers_us=before.answers_us or inbound.answers_us,
        quoted=tuple(dict.fromkeys((*before.quoted, *inbound.quoted))),
        thread=inbound.thread if inbound.thread is not None else before.thread,
        copied_root=inbound.copied_root if inbound.copied_root is not None else before.copied_root,
        answered_at=inbound.answered_at if inbound.answered_at is not None else before.answered_at,
        answered_text=inbound.answered_text if inbound.answered_text is not None else before.answered_text,
    )
    told = (merged.mentioned, merged.answers_us) != (before.mentioned, before.answers_us)
    if not told or not _is_open(row):
        return False
    _revise(conn, row, merged, at=at)
    return True


def _edit(conn: Connection, row: Row[Any], inbound: Inbound, *, at: datetime) -> bool:
    """Take a new text for a message: in place while nobody has begun to answer it, else as a message anew."""
    new = fingerprint(inbound.text)
    is_open = _is_open(row)
    is_now_for_us = inbound.mentioned and not row.mentioned  # the mention is no part of the text
    if row.reason == COMMAND or (new == row.fingerprint and not (is_open and is_now_for_us)):
        return False
    if inbound.at < from_payload(row.payload).at:  # told again, after a newer version
        return False
    inbound = replace(inbound, mentioned=inbound.mentioned or row.mentioned)
    if is_open:
        _revise(conn, row, inbound, at=at)
        return True
    assert inbound.address.message is not None
    # The same text may come back later; only the same text of the same instant is the same edit.
    name = f"{inbound.address.message}#{new[:16]}.{int(inbound.at.timestamp() * 1000)}"
    if _find(conn, inbound.address, name) is not None:
        return False
    conn.execute(_REPRINT, {"which": row.id, "print": new})
    _insert(conn, inbound, name, Standing.HEARD, at=at)
    return True


def _is_open(row: Row[Any]) -> bool:
    return row.state in (InboundState.STORED, InboundState.ROUTED) or (
        row.state == InboundState.IGNORED and row.reason in (ASLEEP, STRANGER)
    )


def _revise(conn: Connection, row: Row[Any], inbound: Inbound, *, at: datetime) -> None:
    is_routed = row.state == InboundState.ROUTED
    conn.execute(
        _REVISE,
        {
            "which": row.id,
            "content": to_payload(inbound),
            "print": fingerprint(inbound.text),
            "is_mentioned": inbound.mentioned,
            "to": InboundState.ROUTED if is_routed else InboundState.STORED,
            "why": None,
            "when": at,
        },
    )
    if is_routed:
        conn.execute(_RETEXT, {"which": row.id, "to": inbound.text})


def fingerprint(text: str) -> str:
    """Return what tells two texts apart without keeping them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def without_text(inbound: Inbound) -> Inbound:
    """Return a message as it is kept when its words are nobody's business."""
    return replace(inbound, text="", addressee={}, answered_text=None)


def _facts(inbound: Inbound) -> dict[str, object]:
    address = inbound.address
    return {"account": address.account, "chat": address.chat, "author": inbound.author.id, "length": len(inbound.text)}


# --- what to read after a gap -------------------------------------------------------------------------

_POSTED = (
    select(
        deliveries.c.workspace,
        deliveries.c.chat,
        deliveries.c.chat_kind,
        deliveries.c.created_at,
        deliveries.c.thread,
        receipts.c.message,
    )
    .join(receipts, receipts.c.delivery_id == deliveries.c.id)
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.kind == bindparam("kind"),
        deliveries.c.chat.is_not(None),
        deliveries.c.created_at >= bindparam("since"),
    )
    .order_by(deliveries.c.seq.desc(), receipts.c.n)
    .limit(1_000)
)
_HEARD = (
    select(table.c.payload, table.c.at)
    .where(
        table.c.id.in_(
            select(func.max(table.c.id))
            .where(
                table.c.account == bindparam("account"),
                table.c.at >= bindparam("since"),
                table.c.reason.is_distinct_from(STRANGER),
            )
            .group_by(table.c.workspace, table.c.chat)
        )
    )
    .order_by(table.c.id.desc())
)
_LAST_HEARD = (
    select(table.c.chat, func.max(table.c.at).label("last"))
    .where(table.c.account == bindparam("account"))
    .group_by(table.c.chat)
)
THREADS_READ = 60
"""How many threads are read after a gap, those of the newest briefs."""

ANSWERED_READ = 30
"""How many threads more, those of our newest answers."""

DMS_READ = 100
"""How many DMs are read, those in which a person was heard last."""


def places_to_read(
    conn: Connection, account: str, *, at: datetime, back: timedelta = timedelta(days=7)
) -> tuple[tuple[Address, datetime], ...]:
    """List where people may have written while an account did not listen, each with the instant to read from.

    That is every chat with a brief or an answer of ours in the last days, the threads under the newest of each (each
    part may have one), and every DM in which somebody was heard; from the last message stored of that chat on, and
    where none is, from our first one there on.
    """
    window = {"account": account, "since": at - back}
    last = {row.chat: row.last for row in conn.execute(_LAST_HEARD, {"account": account})}
    places: dict[Address, datetime] = {}
    first: dict[str, datetime] = {}
    for kind, most in ((DeliveryKind.BRIEF, THREADS_READ), (DeliveryKind.ANSWER, ANSWERED_READ)):
        rows = conn.execute(_POSTED, {**window, "kind": kind.value}).all()
        for row in rows:
            first[row.chat] = min(first.get(row.chat, row.created_at), row.created_at)
        for place in _places_of(rows, account, most, known=places):
            places[place] = last.get(place.chat, first[place.chat])
    for place, heard in _dms(conn, window):
        places.setdefault(place, heard)
    return tuple(places.items())


def _places_of(
    rows: Sequence[Any], account: str, most_threads: int, *, known: Collection[Address]
) -> Iterator[Address]:
    """Name the chats of our messages, newest first, and so many threads that are not `known`."""
    threads = 0
    told: set[Address] = set(known)
    for row in rows:
        for root in dict.fromkeys((None, row.thread or row.message)):
            place = _place(account, row.workspace, row.chat, ChatKind(row.chat_kind), root)
            if place in told or (root is not None and threads >= most_threads):
                continue
            threads += root is not None
            told.add(place)
            yield place


def _dms(conn: Connection, window: Mapping[str, object]) -> Iterator[tuple[Address, datetime]]:
    """Name the DMs in which somebody was heard, strangers left out, with the instant of the last message."""
    heard = ((from_payload(row.payload).address, row.at) for row in conn.execute(_HEARD, window))
    dms = ((one, at) for one, at in heard if one.chat_kind is ChatKind.DM)
    for one, at in islice(dms, DMS_READ):
        yield _place(one.account, one.workspace, one.chat, one.chat_kind, None), at


def _place(account: str, workspace: str | None, chat: str, kind: ChatKind, root: str | None) -> Address:
    return Address(account=account, workspace=workspace or "", chat=chat, chat_kind=kind, root=root)
