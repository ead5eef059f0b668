"""Conversations and the keys that lead to them. Every function is sync and runs inside the caller's transaction."""

import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, delete, func, insert, select, update

from delivery.model import Address, ChatKind
from seeding.labels import one_line
from seeding.model import Session, SessionId, SessionKey
from seeding.prepared import Prepared
from state.schema import directory, session_keys, sessions, turns

log = logging.getLogger(__name__)

# --- finding ------------------------------------------------------------------------------------------

_MOST_KEYS = 32


def _bound_to(count: int) -> Prepared:
    names: list[BindParameter[str]] = [bindparam(f"key{place}") for place in range(count)]
    wanted = select(session_keys.c.key, session_keys.c.session_id).where(session_keys.c.key.in_(names))
    return Prepared(wanted)


_BOUND = tuple(_bound_to(count) for count in range(1, _MOST_KEYS + 1))
_ONE = select(sessions).where(sessions.c.id == bindparam("session"))
_BY_ORIGIN = select(sessions).where(
    sessions.c.account == bindparam("account"),
    sessions.c.chat == bindparam("chat"),
    sessions.c.ended_at.is_(None),
)


def bound(conn: Connection, keys: Iterable[SessionKey]) -> dict[SessionKey, SessionId]:
    """Return which of these keys lead to a session, and to which."""
    wanted = list(keys)
    found: dict[SessionKey, SessionId] = {}
    for start in range(0, len(wanted), _MOST_KEYS):
        some = wanted[start : start + _MOST_KEYS]
        names = {f"key{place}": key for place, key in enumerate(some)}
        found.update(_BOUND[len(some) - 1].all(conn, names))
    return found


def get(conn: Connection, session_id: str) -> Session | None:
    """Return a session, or None if there is none of that id."""
    row = conn.execute(_ONE, {"session": session_id}).one_or_none()
    return None if row is None else _session(row)


def find_session_by_origin(
    conn: Connection,
    *,
    account: str,
    chat: str,
    topic: str | None = None,
    root: str | None = None,
    user: str | None = None,
) -> SessionId | None:
    """Search the one open session of a place, for callers that know no session id and no key.

    A `topic`, `root` or `user` of None means "without one", not "any". Several matches are none: it does not
    guess. Each call leaves a WARNING, because whoever can name the session should.
    """
    rows = conn.execute(_BY_ORIGIN, {"account": account, "chat": chat}).all()
    found = [row.id for row in rows if (row.topic, row.root, row.user) == (topic, root, user)]
    chosen = SessionId(found[0]) if len(found) == 1 else None
    log.warning(
        "Searched a session by its origin: %s.",
        f"{len(found)} match, none is taken" if chosen is None else "one matches",
        extra={
            "action": "session_searched_by_origin",
            "account": account,
            "chat": chat,
            "topic": topic,
            "root": root,
            "found": len(found),
            "session": chosen,
        },
    )
    return chosen


# --- making -------------------------------------------------------------------------------------------

_NAME = Prepared(
    select(directory.c.name).where(
        directory.c.account == bindparam("account"),
        directory.c.chat == bindparam("chat"),
        directory.c.topic == bindparam("topic"),
    )
)
_INSERT = Prepared(insert(sessions), columns=[column.key for column in sessions.c])
_BIND = Prepared(insert(session_keys), columns=[column.key for column in session_keys.c])


def new_id(at: datetime) -> SessionId:
    """Return a fresh id. Ids that are made later sort later, so the newest rows lie together."""
    return SessionId(f"{int(at.timestamp()):08x}{secrets.token_hex(4)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A conversation to be made. `address` says where; `root` what it hangs under; `job` whose brief opens it."""

    id: SessionId
    address: Address
    topic: str | None = None
    root: str | None = None
    user: str | None = None
    user_name: str | None = None
    job: str | None = None
    chat_name: str | None = None  # what the directory calls the chat; "": nobody knows; None: look


def create(conn: Connection, wanted: Sequence[NewSession], *, at: datetime) -> None:
    """Store new sessions. No key leads to them yet."""
    _INSERT.run(conn, [_row(conn, one, at) for one in wanted])


def bind(conn: Connection, session_id: str, keys: Iterable[SessionKey], *, at: datetime) -> None:
    """Let keys lead to a session. Keys that lead somewhere already stay as they are."""
    wanted = dict.fromkeys(keys)
    taken = bound(conn, wanted)
    insert_keys(conn, {key: SessionId(session_id) for key in wanted if key not in taken}, at=at)


def insert_keys(conn: Connection, wanted: Mapping[SessionKey, SessionId], *, at: datetime) -> None:
    """Let keys that are known to be free lead to sessions. One that is taken raises IntegrityError."""
    _BIND.run(conn, [{"key": key, "session_id": session, "bound_at": at} for key, session in wanted.items()])


def get_or_create(conn: Connection, key: SessionKey, wanted: NewSession, *, at: datetime) -> SessionId:
    """Return the session that a key leads to; make `wanted` and bind the key if there is none."""
    found = bound(conn, [key]).get(key)
    if found is not None:
        return found
    create(conn, [wanted], at=at)
    insert_keys(conn, {key: wanted.id}, at=at)
    return wanted.id


_REBIND = (
    update(session_keys)
    .where(session_keys.c.key == bindparam("which"))
    .values(session_id=bindparam("to"), bound_at=bindparam("when"))
)
_END = update(sessions).where(sessions.c.id == bindparam("which")).values(ended_at=bindparam("when"))
_TOUCH = Prepared(update(sessions).where(sessions.c.id == bindparam("which")).values(updated_at=bindparam("when")))


def rebind(conn: Connection, key: SessionKey, session_id: str, *, at: datetime) -> None:
    """Let a key that leads somewhere lead to another session from now on."""
    conn.execute(_REBIND, {"which": key, "to": session_id, "when": at})


def end(conn: Connection, session_id: str, *, at: datetime) -> None:
    """Mark a session as over. Its messages still lead to it."""
    conn.execute(_END, {"which": session_id, "when": at})


def touch(conn: Connection, session_ids: Sequence[str], *, at: datetime) -> None:
    """Note that something happened in these sessions."""
    _TOUCH.run(conn, [{"which": one, "when": at} for one in session_ids])


# --- what people see ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One line of `hermes-cron sessions`."""

    session: Session
    keys: tuple[SessionKey, ...]
    turns: int


_COUNT = select(func.count()).where(turns.c.session_id == sessions.c.id).scalar_subquery()
_LIST = (
    select(sessions, _COUNT.label("turn_count"))
    .order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    .limit(bindparam("most"))
)
_KEYS = (
    select(session_keys.c.session_id, session_keys.c.key)
    .where(session_keys.c.session_id.in_(bindparam("sessions", expanding=True)))
    .order_by(session_keys.c.bound_at, session_keys.c.key)
)


def list_sessions(conn: Connection, *, most: int = 1000) -> tuple[SessionRow, ...]:
    """List the conversations, the one with the newest turn first."""
    rows = conn.execute(_LIST, {"most": most}).all()
    keys: dict[str, list[SessionKey]] = {}
    if rows:
        for session, key in conn.execute(_KEYS, {"sessions": [row.id for row in rows]}):
            keys.setdefault(session, []).append(SessionKey(key))
    return tuple(
        SessionRow(session=_session(row), keys=tuple(keys.get(row.id, ())), turns=row.turn_count) for row in rows
    )


_OPEN = select(sessions).where(sessions.c.ended_at.is_(None)).order_by(sessions.c.updated_at.desc())
_FINALIZE = update(sessions).where(sessions.c.id == bindparam("which")).values(expiry_finalized=bindparam("to"))
_FORGET = delete(sessions).where(sessions.c.id == bindparam("which"))


def list_gateway_sessions(conn: Connection, *, account: str | None = None) -> tuple[Session, ...]:
    """List the open conversations (of one account), the newest activity first."""
    return tuple(_session(row) for row in conn.execute(_OPEN) if account is None or row.account == account)


def set_expiry_finalized(conn: Connection, session_id: str, finalized: bool) -> bool:
    """Store whether the work that an expired session leaves has been done. False: no such session."""
    return conn.execute(_FINALIZE, {"which": session_id, "to": finalized}).rowcount == 1


def forget(conn: Connection, session_id: str) -> bool:
    """Remove a conversation with its turns and keys. False: there is none of that id."""
    return conn.execute(_FORGET, {"which": session_id}).rowcount == 1


# --- rows ---------------------------------------------------------------------------------------------


def _row(conn: Connection, wanted: NewSession, at: datetime) -> dict[str, Any]:
    address = wanted.address
    return {
        "id": wanted.id,
        "account": address.account,
        "workspace": address.workspace,
        "chat": address.chat,
        "chat_kind": address.chat_kind.value,
        "topic": wanted.topic,
        "root": wanted.root,
        "user": wanted.user,
        "display_name": display_name(conn, wanted),
        "origin": {
            "account": address.account,
            "workspace": address.workspace,
            "chat": address.chat,
            "topic": wanted.topic,
            "root": wanted.root,
            "user": wanted.user,
        },
        "expiry_finalized": False,
        "job": wanted.job,
        "created_at": at,
        "updated_at": at,
        "ended_at": None,
    }


def display_name(conn: Connection, wanted: NewSession) -> str:
    """Return what people shall read for a session: the chat's name, and what its own about it is."""
    address = wanted.address
    known = _known_name(conn, address, "") if wanted.chat_name is None else wanted.chat_name
    chat = known or address.chat
    pieces = [chat]
    if wanted.topic is not None:
        pieces.append(_known_name(conn, address, wanted.topic) or f"topic {wanted.topic}")
    if wanted.job is not None:
        pieces.append(wanted.job)
    elif wanted.root is not None:
        pieces.append(f"thread {wanted.root}")
    if wanted.user is not None:
        pieces.append(wanted.user_name or wanted.user)
    return " / ".join(one_line(piece) for piece in pieces)


def _known_name(conn: Connection, address: Address, topic: str) -> str | None:
    found = _NAME.all(conn, {"account": address.account, "chat": address.chat, "topic": topic})
    return found[0].name if found else None


def _session(row: Row[Any]) -> Session:
    return Session(
        id=SessionId(row.id),
        account=row.account,
        workspace=row.workspace,
        chat=row.chat,
        chat_kind=ChatKind(row.chat_kind),
        topic=row.topic,
        root=row.root,
        user=row.user,
        job=row.job,
        display_name=row.display_name,
        expiry_finalized=row.expiry_finalized,
        created_at=row.created_at,
        updated_at=row.updated_at,
        ended_at=row.ended_at,
    )
