"""`/new`: start the flat conversation over, and let what nobody has talked about go along."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from delivery.model import Address, Author
from seeding import books, late, sessions
from seeding import keys as spell
from seeding.late import Undiscussed
from seeding.model import ChatRules, Session, SessionId, SessionKey
from seeding.sessions import NewSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What `/new` did. `session_id` None: nothing, it was typed in a thread or topic of its own (`own_place`)."""

    session_id: SessionId | None
    carried: tuple[Undiscussed, ...] = ()
    own_place: Session | None = None


def start_over(conn: Connection, address: Address, rules: ChatRules, author: Author, *, at: datetime) -> Reset:
    """Let the flat key of a chat (of this person there, if each has their own) lead to a new session.

    Briefs since the last turn of a person go along, older turns do not. Thread keys stay where they are.
    """
    key = spell.flat_key_of(address, rules, author.id)
    old = sessions.bound(conn, [key]).get(key)
    session = None if old is None else sessions.get(conn, old)
    if session is not None and session.is_own_place:
        return Reset(session_id=None, own_place=session)
    if session is not None:
        top_up(conn, session, address, rules, author, key)
    fresh = sessions.new_id(at)
    sessions.create(conn, [new_flat(fresh, address, rules, author)], at=at)
    if session is None:
        sessions.insert_keys(conn, {key: fresh}, at=at)
        return Reset(session_id=fresh)
    carried = late.undiscussed(conn, session.id)
    late.carry(conn, carried, fresh)
    books.move_flat(conn, _ids(carried), old=session.id, new=fresh)
    sessions.rebind(conn, key, fresh, at=at)
    sessions.end(conn, session.id, at=at)
    return Reset(session_id=fresh, carried=carried)


def new_flat(session_id: SessionId, address: Address, rules: ChatRules, author: Author) -> NewSession:
    """Return the flat conversation that lies at an address, for this person where each has their own."""
    has_own = spell.is_per_user(address, rules)
    return NewSession(
        id=session_id,
        address=address,
        topic=spell.topic_of(address),
        user=author.id if has_own else None,
        user_name=author.name if has_own else None,
    )


def top_up(
    conn: Connection, session: Session, address: Address, rules: ChatRules, author: Author, key: SessionKey
) -> None:
    """Give a person's own flat session the briefs since their last words there; shared ones have them already."""
    if not spell.is_per_user(address, rules):
        return
    since = late.last_words_at(conn, session.id) or session.created_at
    late.carry(conn, late.briefs_for_user(conn, address, rules, author.id, key, since=since), session.id)


def is_expired(conn: Connection, session: Session, rules: ChatRules, *, at: datetime) -> bool:
    """Whether a flat session has been silent for longer than the chat's rule allows."""
    if rules.expire_after is None or session.is_own_place:
        return False
    last = late.last_words_at(conn, session.id)
    return last is not None and at - last > rules.expire_after


def words_for(reset: Reset) -> str:
    """Return what the person who typed `/new` is told."""
    if reset.session_id is None:
        job = None if reset.own_place is None else reset.own_place.job
        whose = "one subject" if job is None else f"the brief of {job}"
        return f"This thread belongs to {whose}, so nothing was changed. Write /new in the chat itself to start over."
    jobs = late.jobs_of(reset.carried)
    if not jobs:
        return "A new conversation starts here."
    return f"A new conversation starts here. It keeps what you have not talked about yet: {', '.join(jobs)}."


def _ids(carried: Sequence[Undiscussed]) -> list[str]:
    return [one.delivery_id for one in carried if one.delivery_id is not None]
