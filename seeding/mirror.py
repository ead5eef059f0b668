"""Write into a named session what is visible on a platform: briefs as the user, our own words as the assistant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from seeding.labels import SEND_LABEL, mirrored
from seeding.model import Origin, Role, SessionId
from seeding.prepared import Prepared
from seeding.sessions import find_session_by_origin, touch
from state.schema import turns

_INSERT = Prepared(insert(turns).inline(), columns=[column.key for column in turns.c if column.key != "id"])
_HOLDING = Prepared(select(turns.c.session_id, turns.c.text).where(turns.c.delivery_id == bindparam("delivery")))
_LAST_ROLE = select(turns.c.role).where(turns.c.session_id == bindparam("session")).order_by(turns.c.id.desc()).limit(1)
_EXTEND = Prepared(
    update(turns)
    .where(turns.c.session_id == bindparam("which"), turns.c.delivery_id == bindparam("of"))
    .values(text=bindparam("to"), unconfirmed=False)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a session is searched by a caller that does not know its id. None means "without one"."""

    account: str
    chat: str
    topic: str | None = None
    root: str | None = None
    user: str | None = None


def mirror(
    conn: Connection,
    *,
    text: str,
    at: datetime,
    job: str | None,
    session_id: str | None = None,
    place: Place | None = None,
    delivery_id: str | None = None,
) -> SessionId | None:
    """Mirror a brief (its text as delivered, without label) into one session and return that session's id.

    With `session_id` nothing is ever searched. Without it the one open session of `place` is searched, which
    leaves a WARNING; None if there is not exactly one. The same delivery in the same session stays one turn.
    """
    if session_id is None:
        session_id = None if place is None else find_session_by_origin(conn, **_fields(place))
    if session_id is None:
        return None
    if delivery_id is None or session_id not in holding(conn, delivery_id):
        insert_briefs(conn, [session_id], text=mirrored(job, text), at=at, job=job, delivery_id=delivery_id)
    touch(conn, [session_id], at=at)
    return SessionId(session_id)


def holding(conn: Connection, delivery_id: str) -> dict[SessionId, str]:
    """Return the sessions that hold a turn of this delivery, with the turn's text."""
    return {SessionId(session): text for session, text in _HOLDING.all(conn, {"delivery": delivery_id})}


def insert_briefs(
    conn: Connection,
    session_ids: Iterable[str],
    *,
    text: str,
    at: datetime,
    job: str | None,
    delivery_id: str | None,
    is_unconfirmed: bool = False,
) -> None:
    """Store a brief, label included, as a turn of each of these sessions, which do not hold it yet."""
    rows = [
        turn_row(
            session,
            role=Role.USER,
            text=text,
            at=at,
            origin=Origin.CRON,
            job=job,
            delivery_id=delivery_id,
            is_unconfirmed=is_unconfirmed,
        )
        for session in session_ids
    ]
    insert_turns(conn, rows)


def say(
    conn: Connection, session_id: str, *, text: str, at: datetime, origin: Origin, job: str | None, delivery_id: str
) -> None:
    """Store what the agent itself said (an answer, `hermes-cron send`); once per delivery.

    `hermes-cron send` is an assistant's turn, unless the turn before is one too: then a labelled user turn.
    Said again with another text (a part was confirmed later), the turn is replaced and counts as confirmed.
    """
    role = Role.ASSISTANT
    if origin is Origin.SEND and _last_role(conn, session_id) is Role.ASSISTANT:
        role, text = Role.USER, f"{SEND_LABEL}\n{text}"
    if session_id in holding(conn, delivery_id):
        extend(conn, [session_id], delivery_id=delivery_id, text=text)
        return
    row = turn_row(session_id, role=role, text=text, at=at, origin=origin, job=job, delivery_id=delivery_id)
    insert_turns(conn, [row])


def extend(conn: Connection, session_ids: Iterable[str], *, delivery_id: str, text: str) -> None:
    """Give the turns of a delivery in these sessions another text, label included."""
    rows = [{"which": session, "of": delivery_id, "to": text} for session in session_ids]
    _EXTEND.run(conn, rows)


def insert_turns(conn: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Store turns made by `turn_row`, in order."""
    _INSERT.run(conn, rows)


def turn_row(
    session_id: str,
    *,
    role: Role,
    text: str,
    at: datetime,
    origin: Origin,
    author: str | None = None,
    job: str | None = None,
    delivery_id: str | None = None,
    inbound_id: int | None = None,
    is_unconfirmed: bool = False,
) -> dict[str, Any]:
    """Return one row of the table of turns."""
    return {
        "session_id": session_id,
        "role": role.value,
        "text": text,
        "at": at,
        "origin": origin.value,
        "author": author,
        "job": job,
        "delivery_id": delivery_id,
        "inbound_id": inbound_id,
        "unconfirmed": is_unconfirmed,
    }


def _last_role(conn: Connection, session_id: str) -> Role | None:
    found = conn.execute(_LAST_ROLE, {"session": session_id}).scalar_one_or_none()
    return None if found is None else Role(found)


def _fields(place: Place) -> dict[str, Any]:
    return {
        "account": place.account,
        "chat": place.chat,
        "topic": place.topic,
        "root": place.root,
        "user": place.user,
    }
