"""Takes conversations of a Hermes home over, once: what is there already stays as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, update

from delivery.model import Address, ChatKind
from seeding import sessions
from seeding.keys import flat_key, thread_key
from seeding.labels import one_line
from seeding.legacy import LegacyRead, LegacySession, LegacyTurn
from seeding.model import Origin, Role, SessionId, SessionKey
from state.schema import sessions as table
from state.schema import turns

_KINDS = {"dm": ChatKind.DM, "group": ChatKind.GROUP, "channel": ChatKind.CHANNEL, "thread": ChatKind.CHANNEL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """How many conversations and turns were taken, how many were there already; a sentence for each other entry."""

    taken: int
    turns: int
    already: int
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Which account a Hermes platform is here, and its workspace as it is stored once the account has connected."""

    account: str
    workspace: str | None


def import_sessions(conn: Connection, read: LegacyRead, logins: Mapping[str, Login], *, at: datetime) -> ImportReport:
    """Store what was read; `logins` by platform. Twice is once: a conversation keeps its id. In one transaction."""
    refused = list(read.refused)
    taken = already = stored = 0
    # Of two conversations of one spot the newer one gets its key.
    for one in sorted(read.sessions, key=lambda one: (one.is_ended, -(one.updated_at or at).timestamp())):
        login = logins.get(one.platform)
        workspace = one.workspace or (None if login is None else login.workspace)
        if sessions.get(conn, one.id) is not None:
            already += 1
        elif login is None:
            refused.append(f"{one.id}: jobs.yaml has no {one.platform} account.")
        elif workspace is None:
            refused.append(f"{one.id}: the account {login.account} has not connected yet; start the daemon once.")
        else:
            _take(conn, one, login.account, workspace, at)
            taken, stored = taken + 1, stored + len(one.turns)
    return ImportReport(taken=taken, turns=stored, already=already, refused=tuple(refused))


def _take(conn: Connection, one: LegacySession, account: str, workspace: str, at: datetime) -> None:
    session = SessionId(one.id)
    topic, root = _place(one)
    kind = ChatKind.FORUM if topic is not None and one.chat_type != "dm" else _KINDS.get(one.chat_type, ChatKind.GROUP)
    address = Address(account=account, workspace=workspace, chat=one.chat, chat_kind=kind)
    made = sessions.NewSession(
        id=session, address=address, topic=topic, root=root, user=one.user, chat_name=one_line(one.display_name)
    )
    sessions.create(conn, [made], at=one.created_at or at)
    conn.execute(
        update(table)
        .where(table.c.id == session)
        .values(
            display_name=one_line(one.display_name),
            expiry_finalized=one.expiry_finalized,
            updated_at=one.updated_at or one.created_at or at,
            ended_at=(one.updated_at or at) if one.is_ended else None,
        )
    )
    if not one.is_ended:
        sessions.bind(conn, session, _keys(one, account, workspace, topic, root), at=at)
    if one.turns:
        conn.execute(insert(turns), [_turn(session, turn) for turn in one.turns])


def _place(one: LegacySession) -> tuple[str | None, str | None]:
    """Return (topic, root): Telegram's threads are topics (1 is General, none at all), Slack's hang under a message."""
    if one.platform == "telegram":
        return (None if one.thread in (None, "1") else one.thread), None
    return None, one.thread


def _keys(
    one: LegacySession, account: str, workspace: str, topic: str | None, root: str | None
) -> Sequence[SessionKey]:
    if root is not None:
        return [thread_key(account=account, workspace=workspace, chat=one.chat, message=root)]
    return [flat_key(account=account, workspace=workspace, chat=one.chat, topic=topic, user=one.user)]


def _turn(session: SessionId, turn: LegacyTurn) -> dict[str, object]:
    from_user = turn.role is Role.USER
    return {
        "session_id": session,
        "role": turn.role,
        "text": turn.text,
        "at": turn.at,
        "origin": Origin.INBOUND if from_user else Origin.ANSWER,
        "author": turn.author,
        "unconfirmed": False,
    }
