"""A stored question as its agent is asked: the turns of its session, oldest first, the question last."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Text, bindparam, exists, or_, select

from delivery.model import DeliveryKind, Inbound, InboundId, PartState
from seeding import delivered, late
from seeding.labels import mirrored
from seeding.model import ChatRules, Origin, Question, Role, SessionId, Turn
from seeding.payload import from_payload
from seeding.proof import may_be_answered
from state.schema import deliveries, parts, receipts, turns
from state.schema import inbound as table

MOST_TURNS = 500
"""How many of a session's newest turns an agent is given; the briefs that are being answered always."""
DOUBT_LASTS = timedelta(days=1)

_INBOUND = select(table.c.payload, table.c.session_id, table.c.attempts).where(table.c.id == bindparam("which"))
_NEWEST = select(turns).where(turns.c.session_id == bindparam("session")).order_by(turns.c.id.desc()).limit(MOST_TURNS)
_NEWEST_BRIEF = (
    select(turns)
    .where(turns.c.session_id == bindparam("session"), turns.c.origin == Origin.CRON.value)
    .order_by(turns.c.id.desc())
    .limit(1)
)
_OF_BRIEFS = select(turns).where(
    turns.c.session_id == bindparam("session"), turns.c.delivery_id.in_(bindparam("briefs", expanding=True))
)
_TOPIC = bindparam("topic", type_=Text)
_DOUBTFUL = (
    select(deliveries.c.id)
    .where(
        deliveries.c.account == bindparam("account"),
        deliveries.c.chat == bindparam("chat"),
        or_(deliveries.c.topic == _TOPIC, deliveries.c.topic.is_(None) & _TOPIC.is_(None)),
        deliveries.c.kind == DeliveryKind.BRIEF.value,
        deliveries.c.continues.is_(True),
        deliveries.c.created_at >= bindparam("since"),
        select(parts.c.n)
        .where(
            parts.c.delivery_id == deliveries.c.id,
            parts.c.state.in_((PartState.IN_DOUBT.value, PartState.SENDING.value, PartState.SENT.value)),
            ~exists().where(receipts.c.delivery_id == parts.c.delivery_id, receipts.c.n == parts.c.n),
        )
        .exists(),
    )
    .order_by(deliveries.c.created_at)
)


def question_for(conn: Connection, inbound_id: InboundId, rules: ChatRules, *, at: datetime) -> Question | None:
    """Read what the agent of a routed question is asked; None if its session is gone."""
    row = conn.execute(_INBOUND, {"which": inbound_id}).one_or_none()
    if row is None or row.session_id is None:
        return None
    inbound = from_payload(row.payload)
    briefs = late.answered_briefs(conn, inbound, rules)
    stored = _turns(conn, row.session_id, inbound_id, briefs)
    doubtful = _perhaps_arrived(conn, inbound, stored, briefs, at=at)
    own = Turn(role=Role.USER, text=inbound.text, at=inbound.at, origin=Origin.INBOUND, author=inbound.author.name)
    transcript = (*_in_their_time(stored, doubtful), own)
    return Question(
        inbound_id=inbound_id,
        session_id=SessionId(row.session_id),
        job=_job(transcript, briefs),
        text=inbound.text,
        author=inbound.author.name,
        address=inbound.address,
        transcript=transcript,
        briefs=briefs,
        attempt=row.attempts,
    )


def _turns(conn: Connection, session_id: str, inbound_id: InboundId, briefs: Iterable[str]) -> tuple[Turn, ...]:
    """Return the turns before a question: without it, and without the questions that wait behind it."""
    rows = list(conn.execute(_NEWEST, {"session": session_id}))
    asked = next((row.id for row in rows if row.inbound_id == inbound_id), None)
    kept = [
        row
        for row in rows
        if row.inbound_id is None or (row.inbound_id != inbound_id and (asked is None or row.id < asked))
    ]
    known = {row.delivery_id for row in kept}
    wanted = [brief for brief in briefs if brief not in known]
    if wanted:
        kept += conn.execute(_OF_BRIEFS, {"session": session_id, "briefs": wanted}).all()
    if len(rows) == MOST_TURNS and not any(row.origin == Origin.CRON for row in kept):
        kept += conn.execute(_NEWEST_BRIEF, {"session": session_id}).all()
    return tuple(turn_of(row) for row in sorted(kept, key=lambda row: row.id))


def turn_of(row: Row[Any]) -> Turn:
    """Read one row of the table of turns."""
    return Turn(
        role=Role(row.role),
        text=row.text,
        at=row.at,
        origin=Origin(row.origin),
        author=row.author,
        job=row.job,
        delivery_id=row.delivery_id,
        is_unconfirmed=row.unconfirmed,
    )


def _perhaps_arrived(
    conn: Connection, inbound: Inbound, known: Sequence[Turn], briefs: frozenset[str], *, at: datetime
) -> tuple[Turn, ...]:
    """Return the briefs that may have arrived and that a message may be about, as turns its session lacks.

    A message about something that is known (`briefs`, or whatever else of ours it answers) is about that alone.
    """
    address = inbound.address
    under = None if address.root is None else late.ours(conn, address, (address.chat, address.root))
    meant = briefs if under is None else briefs | {under.delivery_id}
    params = {"account": address.account, "chat": address.chat, "topic": address.topic, "since": at - DOUBT_LASTS}
    held = {turn.delivery_id for turn in known}
    found = []
    for delivery_id in conn.execute(_DOUBTFUL, params).scalars().all():
        one = None if delivery_id in held or (meant and delivery_id not in meant) else delivered.load(conn, delivery_id)
        if one is None or one.arrived or not may_be_answered(one.begun_at, inbound):
            continue
        whole = "".join(part.text for part in one.texts)
        found.append(
            Turn(
                role=Role.USER,
                text=f"{mirrored(one.job, whole)}\n[nobody knows whether this brief arrived]",
                at=one.begun_at or at,
                origin=Origin.CRON,
                job=one.job,
                delivery_id=one.id,
                is_unconfirmed=True,
            )
        )
    return tuple(found)


def _in_their_time(stored: Sequence[Turn], doubtful: Sequence[Turn]) -> tuple[Turn, ...]:
    """Put briefs in doubt where they belong: one that was begun before the newest brief is not the newest."""
    turns = list(stored)
    for turn in doubtful:
        after = [place for place, other in enumerate(turns) if other.at <= turn.at]
        turns.insert(after[-1] + 1 if after else 0, turn)
    return tuple(turns)


def _job(transcript: Sequence[Turn], briefs: frozenset[str]) -> str | None:
    """Return the job of the brief that is being answered: the one that is meant, else the newest."""
    of_briefs = [turn for turn in transcript if turn.origin is Origin.CRON]
    meant = [turn for turn in of_briefs if turn.delivery_id in briefs]
    return next((turn.job for turn in reversed(meant or of_briefs)), None)


_TRANSCRIPT = select(turns).where(turns.c.session_id == bindparam("session")).order_by(turns.c.id)


def transcript_of(conn: Connection, session_id: str) -> tuple[Turn, ...]:
    """Return all stored turns of a session, oldest first."""
    return tuple(turn_of(row) for row in conn.execute(_TRANSCRIPT, {"session": session_id}))
