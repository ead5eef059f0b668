"""Chats that get another id: their flat conversations follow."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, select, update

from seeding import keys as spell
from seeding.model import SessionKey
from seeding.sessions import rebind
from state.schema import session_keys, sessions

_OF_CHAT = select(session_keys.c.key, session_keys.c.session_id).where(
    session_keys.c.session_id.in_(
        select(sessions.c.id).where(
            sessions.c.account == bindparam("of"), sessions.c.chat.in_([bindparam("old"), bindparam("new")])
        )
    )
)
_MOVE = (
    update(sessions)
    .where(sessions.c.account == bindparam("of"), sessions.c.chat == bindparam("old"))
    .values(chat=bindparam("new"))
)
_RESPELL = update(session_keys).where(session_keys.c.key == bindparam("old")).values(key=bindparam("new"))
_UNBIND = delete(session_keys).where(session_keys.c.key == bindparam("old"))


def chat_moved(
    conn: Connection, account: str, old: str, new: str, *, at: datetime, keeps_messages: bool = False
) -> None:
    """Let flat keys and sessions follow a chat to its new id. Idempotent.

    Thread keys stay under the old id unless `keeps_messages` (Slack: the messages move along). A spot of the
    new chat that is taken already leads to the older conversation from then on: that one holds the briefs.
    """
    rows = conn.execute(_OF_CHAT, {"of": account, "old": old, "new": new}).all()
    taken = {SessionKey(row.key) for row in rows}
    for row in rows:
        key = SessionKey(row.key)
        if spell.chat_of(key) != (account, old) or not (keeps_messages or spell.is_flat(key)):
            continue
        there = spell.moved(key, chat=new)
        if there in taken:
            rebind(conn, there, row.session_id, at=at)
            conn.execute(_UNBIND, {"old": key})
        else:
            conn.execute(_RESPELL, {"old": key, "new": there})
    conn.execute(_MOVE, {"of": account, "old": old, "new": new})
