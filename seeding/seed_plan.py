"""What a brief is owed: for each surface the session, the keys to bind, the turn to write. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from delivery.model import PartKind, Surface
from seeding import keys as spell
from seeding.books import Entry
from seeding.delivered import Delivered, text_of
from seeding.keys import DeliveryKeys
from seeding.labels import mirrored
from seeding.model import SessionId, SessionKey
from seeding.sessions import NewSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfacePlan:
    """The work on one surface. Nothing to do is a plan too: `is_done`."""

    surface: Surface
    session_id: SessionId
    create: NewSession | None = None
    bind: tuple[SessionKey, ...] = ()
    writes_turn: bool = False
    extends: tuple[SessionId, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.create is None and not self.bind and not self.writes_turn and not self.extends


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the database says before: which keys are bound, who holds the brief, what the books say."""

    bound: Mapping[SessionKey, SessionId]
    holding: Mapping[SessionId, str]
    entries: Mapping[Surface, Entry]
    new_id: Callable[[], SessionId]  # for a session that is not there yet
    existing: frozenset[str] = frozenset()  # which sessions of `entries` are there


def plan(delivered: Delivered, keys: DeliveryKeys, known: Known) -> tuple[SurfacePlan, ...]:
    """Return what to do on each surface that is owed, flat first. The brief has a piece that arrived."""
    stale: set[SessionId] = set()
    if known.holding:
        text = mirrored(delivered.job, text_of(delivered.texts))
        stale = {session for session, held in known.holding.items() if held != text}
    made: list[SurfacePlan] = []
    if keys.flat:
        made.append(_flat(delivered, keys.flat, known))
    if keys.thread:
        made.append(_thread(delivered, keys.thread, known))
    if len(made) > 1 and made[0].session_id == made[1].session_id:
        made[1] = replace(made[1], writes_turn=False, create=None)
    return tuple(_extended(made, stale))


def _flat(delivered: Delivered, keys: tuple[SessionKey, ...], known: Known) -> SurfacePlan:
    if delivered.flat_seeded and delivered.flat_session is not None:
        # It landed once. Whatever became of that session since (a reset, a removal) is a person's decision.
        return SurfacePlan(surface=Surface.FLAT, session_id=SessionId(delivered.flat_session))
    session, is_new = _session_for(Surface.FLAT, keys, known)
    place = delivered.arrived[0].address
    assert place is not None
    topic = None if spell.opened_topic(delivered.landed) is not None else spell.topic_of(place)
    return SurfacePlan(
        surface=Surface.FLAT,
        session_id=session,
        create=NewSession(id=session, address=place, topic=topic, chat_name=delivered.chat_name or "")
        if is_new
        else None,
        bind=_free(keys, known),
        writes_turn=session not in known.holding,
    )


def _thread(delivered: Delivered, keys: tuple[SessionKey, ...], known: Known) -> SurfacePlan:
    if delivered.thread_seeded and delivered.thread_session is not None:
        session = SessionId(delivered.thread_session)
        is_there = session in known.holding
        return SurfacePlan(surface=Surface.THREAD, session_id=session, bind=_free(keys, known) if is_there else ())
    session, is_new = _session_for(Surface.THREAD, keys, known)
    return SurfacePlan(
        surface=Surface.THREAD,
        session_id=session,
        create=own_session(delivered, session) if is_new else None,
        bind=_free(keys, known),
        writes_turn=session not in known.holding,
    )


def own_session(delivered: Delivered, session_id: SessionId) -> NewSession:
    """Return the conversation of its own that a brief opens: under its header, its thread, or its first part."""
    landed = delivered.landed
    opening = next((one.address for one in landed if one.kind is PartKind.HEADER), None)
    first = next((one.address for one in landed if one.kind is PartKind.TEXT), landed[0].address)
    root = opening.message if opening is not None else first.root if first.root is not None else first.message
    opened = spell.opened_topic(landed)
    topic = opened if opened is not None else spell.topic_of(first)
    return NewSession(
        id=session_id, address=first, topic=topic, root=root, job=delivered.job, chat_name=delivered.chat_name or ""
    )


def _session_for(surface: Surface, keys: tuple[SessionKey, ...], known: Known) -> tuple[SessionId, bool]:
    """Return the session of a surface and whether it is yet to be made; a failed try's id is kept."""
    for key in keys:
        if key in known.bound:
            return known.bound[key], False
    entry = known.entries.get(surface)
    if entry is not None and entry.session_id is not None:
        return SessionId(entry.session_id), entry.session_id not in known.existing
    return known.new_id(), True


def _free(keys: tuple[SessionKey, ...], known: Known) -> tuple[SessionKey, ...]:
    return tuple(key for key in keys if key not in known.bound)


def _extended(made: list[SurfacePlan], stale: set[SessionId]) -> list[SurfacePlan]:
    """Give each session whose turn lacks a piece to one surface; copies elsewhere go with the first."""
    if not stale:
        return made
    own = {one.session_id for one in made}
    elsewhere = sorted(stale - own)
    extended = []
    for place, one in enumerate(made):
        mine = [one.session_id] if one.session_id in stale else []
        extended.append(replace(one, extends=(*mine, *(elsewhere if place == 0 else ()))))
    return extended
