"""Talk in a session from somewhere else than its chat: `hermes-cron chat SESSION`. Nothing is posted."""

from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from delivery.model import Address, ChatKind, InboundId
from seeding import sessions
from seeding.mirror import insert_turns, turn_row
from seeding.model import Origin, Question, Role, Turn
from seeding.questions import MOST_TURNS, turn_of
from state.schema import turns

NOBODY = InboundId(0)
"""An aside is no message of any platform."""

_NEWEST = select(turns).where(turns.c.session_id == bindparam("session")).order_by(turns.c.id.desc()).limit(MOST_TURNS)


def question_of(conn: Connection, session_id: str, text: str, *, author: str, at: datetime) -> Question | None:
    """Return what the session's agent is asked; None if there is no such session."""
    session = sessions.get(conn, session_id)
    if session is None:
        return None
    stored = [turn_of(row) for row in reversed(conn.execute(_NEWEST, {"session": session_id}).all())]
    own = Turn(role=Role.USER, text=text, at=at, origin=Origin.INBOUND, author=author)
    return Question(
        inbound_id=NOBODY,
        session_id=session.id,
        job=next((turn.job for turn in reversed(stored) if turn.job), None),
        text=text,
        author=author,
        address=Address(
            account=session.account,
            workspace=session.workspace,
            chat=session.chat,
            chat_kind=ChatKind(session.chat_kind),
            topic=session.topic,
            root=session.root,
        ),
        transcript=(*stored, own),
    )


def store(conn: Connection, question: Question, answer: str, *, asked_at: datetime, at: datetime) -> None:
    """Store both turns of an aside; nothing of it is left if the agent failed."""
    asked = turn_row(
        question.session_id,
        role=Role.USER,
        text=question.text,
        at=asked_at,
        origin=Origin.INBOUND,
        author=question.author,
    )
    said = turn_row(question.session_id, role=Role.ASSISTANT, text=answer, at=at, origin=Origin.ANSWER)
    insert_turns(conn, [asked, said])
    sessions.touch(conn, [question.session_id], at=at)
