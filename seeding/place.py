"""Where a message belongs: the session that it continues, or a new one, or none. Inside one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from delivery.model import ChatKind, Inbound, Receipt
from seeding import keys as spell
from seeding import late, mirror, reset, sessions
from seeding.chat_commands import is_for_another_bot
from seeding.inbox import ASLEEP, InboundState, without_text
from seeding.keys import Candidate
from seeding.late import FIRST_WORDS_BACK, Undiscussed
from seeding.model import ChatRules, Listen, Origin, Role, Session, SessionId, SessionKey
from seeding.payload import from_payload, to_payload
from seeding.ports import ConfirmByAnswer
from seeding.proof import proven_by
from seeding.reset import Reset
from seeding.seeder import Seeder
from seeding.sessions import NewSession
from state.schema import inbound as table


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The session that a message continues, and the key that led there."""

    session: Session
    candidate: Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """What became of a stored message. `session_id` None: it woke nothing."""

    session_id: SessionId | None


_STORED = select(table).where(table.c.id == bindparam("which"), table.c.state == InboundState.STORED.value)
_ROUTE = (
    update(table)
    .where(table.c.id == bindparam("which"))
    .values(state=InboundState.ROUTED.value, session_id=bindparam("session"), updated_at=bindparam("when"))
)
_IGNORE = (
    update(table)
    .where(table.c.id == bindparam("which"))
    .values(
        state=InboundState.IGNORED.value,
        reason=bindparam("why"),
        payload=bindparam("kept"),
        updated_at=bindparam("when"),
    )
)


class Placer:
    """Routes stored messages. `route` runs inside `db.write` and may be run again."""

    def __init__(self, seeder: Seeder, confirm: ConfirmByAnswer) -> None:
        self._seeder = seeder
        self._confirm = confirm

    def route(self, conn: Connection, inbound_id: int, rules: ChatRules, *, at: datetime) -> Routed | None:
        """Bind a stored message to its session and store its turn; None if it is not waiting any more.

        First every brief to its chat of which something arrived is seeded, and a part that the message proves
        is confirmed: whatever the answer can mean is bound before it is looked up.
        """
        row = conn.execute(_STORED, {"which": inbound_id}).one_or_none()
        if row is None:
            return None
        inbound = from_payload(row.payload)
        self._take_as_receipt(conn, inbound, rules, at=at)
        for chat in chats_meant(inbound):
            self._seeder.seed_before_routing(conn, inbound.address.account, chat, at=at)
        match = self._match(conn, inbound, rules, at=at)
        if not self._wakes(conn, inbound, rules, match):
            _ignore(conn, row, inbound, at=at)
            return Routed(session_id=None)
        session = (
            self._open(conn, inbound, rules, at=at) if match is None else self._go_on(conn, inbound, rules, match, at)
        )
        _store_turn(conn, inbound_id, inbound, rules, session, at=at)
        return Routed(session_id=session)

    def start_over(self, conn: Connection, inbound: Inbound, rules: ChatRules, *, at: datetime) -> Reset:
        """Carry out `/new` where it was typed: in a conversation of its own it changes nothing."""
        address = inbound.address
        self._seeder.seed_before_routing(conn, address.account, address.chat, at=at)
        match = self._match(conn, inbound, rules, at=at)
        if match is not None and match.session.is_own_place:
            return Reset(session_id=None, own_place=match.session)
        if spell.lies_in_thread(address, rules):
            return Reset(session_id=None)
        return reset.start_over(conn, address, rules, inbound.author, at=at)

    def _take_as_receipt(self, conn: Connection, inbound: Inbound, rules: ChatRules, *, at: datetime) -> None:
        """Confirm a part without a receipt under which somebody surely answers: they have it before their eyes."""
        root = inbound.address.root
        if root is None or not inbound.answers_us:
            return
        address = inbound.address
        if late.ours(conn, address, (address.chat, root)) is not None:
            return
        found = proven_by(conn, inbound, rules)
        if found is None:
            return
        receipt = Receipt(
            address=replace(address, message=root, root=None), at=found.at, raw={"confirmed_by": "an answer"}
        )
        self._confirm(conn, found.delivery_id, found.n, receipt, at=at)

    def _match(self, conn: Connection, inbound: Inbound, rules: ChatRules, *, at: datetime) -> Match | None:
        """Return the first candidate that leads somewhere, or would if its brief had been seeded."""
        candidates = spell.candidates_for(inbound, rules)
        known = sessions.bound(conn, [one.key for one in candidates])
        for one in candidates:
            session_id = known.get(one.key)
            if session_id is None and one.message is not None:
                session_id = late.bind_message(conn, self._seeder, inbound.address, one.message, at=at)
            session = None if session_id is None else sessions.get(conn, session_id)
            if session is None or (one.is_topic_only and not session.is_own_place):
                continue
            return Match(session=session, candidate=one)
        return None

    def _wakes(self, conn: Connection, inbound: Inbound, rules: ChatRules, match: Match | None) -> bool:
        if is_for_another_bot(inbound):
            return False
        is_addressed = inbound.address.chat_kind is ChatKind.DM or inbound.mentioned or inbound.answers_us
        if is_addressed or rules.listen is Listen.ALL:
            return True
        if match is None:
            return False
        message = match.candidate.message
        if message is not None and late.ours(conn, inbound.address, message) is not None:
            return True
        if spell.lies_in_thread(inbound.address, rules):  # a thread of people stays theirs, though we were asked in it
            is_briefs_own = match.session.job is not None and match.session.root == inbound.address.root
            return is_briefs_own or late.holds_ours(conn, inbound.address)
        return match.session.is_own_place

    def _go_on(self, conn: Connection, inbound: Inbound, rules: ChatRules, match: Match, at: datetime) -> SessionId:
        if match.candidate.message is not None or match.session.is_own_place:
            return match.session.id
        if reset.is_expired(conn, match.session, rules, at=at):
            fresh = reset.start_over(conn, inbound.address, rules, inbound.author, at=at).session_id
            assert fresh is not None  # only a flat session expires
            return fresh
        reset.top_up(conn, match.session, inbound.address, rules, inbound.author, match.candidate.key)
        return match.session.id

    def _open(self, conn: Connection, inbound: Inbound, rules: ChatRules, *, at: datetime) -> SessionId:
        """Start a conversation for a message that continues none, with the briefs that it may be about."""
        address = inbound.address
        fresh = sessions.new_id(at)
        wanted = reset.new_flat(fresh, address, rules, inbound.author)
        if spell.lies_in_thread(address, rules):
            wanted = NewSession(id=fresh, address=address, topic=spell.topic_of(address), root=address.root)
        sessions.create(conn, [wanted], at=at)
        late.carry(conn, self._about(conn, inbound, rules, at), fresh)
        if not spell.lies_in_thread(address, rules):
            sessions.insert_keys(conn, {spell.flat_key_of(address, rules, inbound.author.id): fresh}, at=at)
        return fresh

    def _about(self, conn: Connection, inbound: Inbound, rules: ChatRules, at: datetime) -> Sequence[Undiscussed]:
        """Return the briefs of the chat's flat conversation that nobody has talked about."""
        address = inbound.address
        is_in_thread = spell.lies_in_thread(address, rules)
        if not is_in_thread and address.chat_kind is ChatKind.DM and spell.topic_of(address) is not None:
            return _of_flat(conn, spell.flat_key_of(replace(address, topic=None), rules, None))
        key = spell.flat_key_of(address, rules, inbound.author.id)
        if not spell.is_per_user(address, rules):
            return _of_flat(conn, key) if is_in_thread else ()
        since = at - FIRST_WORDS_BACK
        old = sessions.bound(conn, [key]).get(key)
        if old is not None:
            since = late.last_words_at(conn, old) or since
        return late.briefs_for_user(conn, address, rules, inbound.author.id, key, since=since)


def chats_meant(inbound: Inbound) -> tuple[str, ...]:
    """Return the chats whose briefs a message may be about: its own, and the one that its thread copies."""
    copied = () if inbound.copied_root is None else (inbound.copied_root[0],)
    return tuple(dict.fromkeys((inbound.address.chat, *copied)))


def _of_flat(conn: Connection, key: SessionKey) -> Sequence[Undiscussed]:
    flat = sessions.bound(conn, [key]).get(key)
    return () if flat is None else late.undiscussed(conn, flat)


def _store_turn(
    conn: Connection, inbound_id: int, inbound: Inbound, rules: ChatRules, session: SessionId, *, at: datetime
) -> None:
    address = inbound.address
    keys = [spell.message_key(address)]
    if spell.lies_in_thread(address, rules):
        keys.append(spell.message_key(replace(address, message=address.root)))
    sessions.bind(conn, session, keys, at=at)
    row = mirror.turn_row(
        session,
        role=Role.USER,
        text=inbound.text,
        at=inbound.at,
        origin=Origin.INBOUND,
        author=inbound.author.name,
        inbound_id=inbound_id,
    )
    mirror.insert_turns(conn, [row])
    sessions.touch(conn, [session], at=at)
    conn.execute(_ROUTE, {"which": inbound_id, "session": session, "when": at})


def _ignore(conn: Connection, row: Row[Any], inbound: Inbound, *, at: datetime) -> None:
    """Keep of a message that wakes nothing only that it was there."""
    kept = to_payload(without_text(inbound))
    conn.execute(_IGNORE, {"which": row.id, "why": ASLEEP, "kept": kept, "when": at})
