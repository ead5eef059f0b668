"""Seed what has arrived: bind the keys of its receipts to sessions and mirror the brief into exactly those."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update
from sqlalchemy.exc import SQLAlchemyError

from delivery.model import DeliveryKind, Surface
from delivery.ports import Settled
from seeding import believed, books, delivered, mirror, moves, sessions
from seeding import keys as spell
from seeding.books import Entry, Result
from seeding.delivered import Delivered
from seeding.keys import DeliveryKeys
from seeding.labels import mirrored
from seeding.model import Origin, SessionId
from seeding.ports import Rulebook, Store
from seeding.prepared import savepoint
from seeding.seed_plan import Known, SurfacePlan, own_session, plan
from seeding.sessions import NewSession
from state.schema import inbound
from state.schema import sessions as session_table

log = logging.getLogger(__name__)


_EXISTING = select(session_table.c.id).where(session_table.c.id.in_(bindparam("ids", expanding=True)))
_ANSWERED = (
    update(inbound)
    .where(inbound.c.id == bindparam("which"))
    .values(state="answered", reason=bindparam("why"), updated_at=bindparam("when"))
)


class Seeder:
    """Implements `delivery.ports.Settlement` and `FollowsMoves`. Holds no state but the rules."""

    def __init__(self, rules: Rulebook) -> None:
        self._rules = rules

    def settled(self, conn: Connection, settled: Settled) -> None:
        """Write what a settled delivery leaves in conversations; see `Settlement`. Idempotent.

        A brief's surface that cannot be seeded is a WARNING and stays on the books; the other one lands.
        """
        one = delivered.load(conn, settled.delivery_id)
        if one is not None and one.is_called_sent:
            believed.believe(conn, self, self._rules, one, at=settled.at)
        if one is None or not one.arrived:
            return
        match one.kind:
            case DeliveryKind.BRIEF:
                self.seed(conn, one, at=settled.at)
            case DeliveryKind.ANSWER:
                store_answer(conn, one, at=settled.at)
            case DeliveryKind.SEND:
                self._mirror_send(conn, one, at=settled.at)
            case DeliveryKind.NOTICE:
                return

    def chat_moved(
        self, conn: Connection, account: str, old: str, new: str, *, at: datetime, keeps_messages: bool = False
    ) -> None:
        """Let flat keys and sessions follow a chat to its new id; see `delivery.ports.FollowsMoves`."""
        moves.chat_moved(conn, account, old, new, at=at, keeps_messages=keeps_messages)

    def seed(self, conn: Connection, one: Delivered, *, at: datetime) -> bool:
        """Seed a brief on every surface that it owes. True if all of them have landed. Idempotent."""
        if not one.is_brief_to_seed:
            return True
        keys = self._keys(one)
        # A brief that nobody has begun to seed, the usual case, needs no look at what was done before.
        entries = books.entries(conn, one.id) if one.is_on_the_books else {}
        known = Known(
            bound=sessions.bound(conn, (*keys.flat, *keys.thread)),
            holding=mirror.holding(conn, one.id) if one.has_turns else {},
            entries=entries,
            new_id=lambda: sessions.new_id(at),
            existing=_existing(conn, [entry.session_id for entry in entries.values() if entry.session_id]),
        )
        plans = plan(one, keys, known)
        todo = [
            each
            for each in plans
            if not each.is_done or not _is_flagged(one, each.surface) or _is_owed(entries, each.surface)
        ]
        if not todo:
            return True
        results = _carry_out(conn, one, todo, at)
        books.record(conn, one.id, results, entries, at=at)
        _flag(conn, one, plans, results)
        _tell(one, results)
        return all(result.error is None for result in results)

    def seed_before_routing(self, conn: Connection, account: str, chat: str, *, at: datetime) -> None:
        """Seed every brief to a chat of which something arrived: somebody is about to answer there."""
        for delivery_id in books.unseeded_in_chat(conn, account, chat, at=at):
            one = delivered.load(conn, delivery_id)
            if one is not None:
                self.seed(conn, one, at=at)

    def reopen(self, conn: Connection, delivery_id: str, *, at: datetime) -> SessionId | None:
        """Give a brief whose own conversation is gone (or was never made) one, and return it.

        None if answers do not continue it. A brief of which only the opening arrived gets an empty one,
        into which it is seeded when it comes.
        """
        one = delivered.load(conn, delivery_id)
        if one is None or one.kind is not DeliveryKind.BRIEF or not one.continues or not one.landed:
            return None
        keys = self._keys(one).thread
        bound = sessions.bound(conn, keys)
        session = next((bound[key] for key in keys if key in bound), None)
        if session is None:
            session = sessions.new_id(at)
            sessions.create(conn, [own_session(one, session)], at=at)
        sessions.bind(conn, session, keys, at=at)
        if one.arrived and session not in mirror.holding(conn, one.id):
            text = mirrored(one.job, delivered.text_of(one.texts))
            mirror.insert_briefs(conn, [session], text=text, at=_when(one, at), job=one.job, delivery_id=one.id)
            books.record(
                conn,
                one.id,
                [Result(surface=Surface.THREAD, session_id=session)],
                books.entries(conn, one.id),
                at=at,
            )
            books.flag(
                conn,
                one.id,
                flat_session=one.flat_session,
                thread_session=session,
                flat_seeded=one.flat_seeded,
                thread_seeded=True,
            )
        return session

    async def retry_owed(self, db: Store, *, at: datetime) -> int:
        """Seed what is owed, each delivery in a write of its own; return how many have landed now."""
        landed = 0
        for delivery_id in await db.read(lambda conn: books.owed(conn, at=at)):
            landed += await db.write(lambda conn, one=delivery_id: self._retry(conn, one, at))  # type: ignore[misc]
        return landed

    def _retry(self, conn: Connection, delivery_id: str, at: datetime) -> bool:
        one = delivered.load(conn, delivery_id)
        return one is not None and one.is_brief_to_seed and self.seed(conn, one, at=at)

    def _keys(self, one: Delivered) -> DeliveryKeys:
        return spell.keys_for(one.landed, self._rules.for_chat(one.landed[0].address))

    def _mirror_send(self, conn: Connection, one: Delivered, *, at: datetime) -> None:
        keys = self._keys(one)
        place = one.landed[0].address
        target = keys.flat or keys.thread
        fresh = sessions.new_id(at)
        wanted = (
            NewSession(id=fresh, address=place, topic=spell.topic_of(place)) if keys.flat else own_session(one, fresh)
        )
        held = next(iter(mirror.holding(conn, one.id)), None)
        session = held or sessions.get_or_create(conn, target[0], wanted, at=at)
        text = delivered.text_of(one.texts)
        mirror.say(conn, session, text=text, at=_when(one, at), origin=Origin.SEND, job=one.job, delivery_id=one.id)
        sessions.bind(conn, session, keys.thread, at=at)
        sessions.touch(conn, [session], at=at)


def store_answer(conn: Connection, one: Delivered, *, at: datetime) -> None:
    """Store an answer that arrived in the session that asked, bind its messages, close its question. Idempotent."""
    if one.session_id is not None:
        text = delivered.text_of(one.texts)
        mirror.say(
            conn,
            one.session_id,
            text=text,
            at=_when(one, at),
            origin=Origin.ANSWER,
            job=one.job,
            delivery_id=one.id,
        )
        keys = [spell.message_key(each.address) for each in one.landed]
        sessions.bind(conn, one.session_id, keys, at=at)
        sessions.touch(conn, [one.session_id], at=at)
    if one.inbound_id is not None:
        conn.execute(_ANSWERED, {"which": one.inbound_id, "why": None, "when": at})


def _carry_out(conn: Connection, one: Delivered, plans: Sequence[SurfacePlan], at: datetime) -> list[Result]:
    """Do all surfaces at once; if that fails, each in a savepoint of its own, so that none takes another down."""
    try:
        with savepoint(conn):
            _write(conn, one, plans, at)
    except SQLAlchemyError as error:
        if len(plans) == 1:
            return [_result(plans[0], str(error))]
        return [_alone(conn, one, each, at) for each in plans]
    return [_result(each) for each in plans]


def _alone(conn: Connection, one: Delivered, plan: SurfacePlan, at: datetime) -> Result:
    try:
        with savepoint(conn):
            _write(conn, one, [plan], at)
    except SQLAlchemyError as error:
        return _result(plan, str(error))
    return _result(plan)


def _result(plan: SurfacePlan, error: str | None = None) -> Result:
    # The driver's first line says what happened; the rest repeats the statement and the brief's text.
    reason = None if error is None else error.partition("\n")[0]
    return Result(surface=plan.surface, session_id=plan.session_id, error=reason)


def _write(conn: Connection, one: Delivered, plans: Sequence[SurfacePlan], at: datetime) -> None:
    sessions.create(conn, [each.create for each in plans if each.create is not None], at=at)
    sessions.insert_keys(conn, {key: each.session_id for each in plans for key in each.bind}, at=at)
    into = [each.session_id for each in plans if each.writes_turn]
    text = mirrored(one.job, delivered.text_of(one.texts))
    if into:
        mirror.insert_briefs(conn, into, text=text, at=_when(one, at), job=one.job, delivery_id=one.id)
    stale = [session for each in plans for session in each.extends]
    mirror.extend(conn, stale, delivery_id=one.id, text=text)
    touched = {*into, *stale} - {each.session_id for each in plans if each.create is not None}
    sessions.touch(conn, sorted(touched), at=at)


def _is_flagged(one: Delivered, surface: Surface) -> bool:
    return bool(one.flat_seeded if surface is Surface.FLAT else one.thread_seeded)


def _is_owed(entries: Mapping[Surface, Entry], surface: Surface) -> bool:
    return surface in entries and entries[surface].state == books.OWED


def _flag(conn: Connection, one: Delivered, plans: Sequence[SurfacePlan], results: Sequence[Result]) -> None:
    """Write where the seeds are. What landed once stays landed; a surface that is not owed stays null."""
    failed = [result.surface for result in results if result.error is not None]
    where: dict[Surface, str] = {each.surface: each.session_id for each in plans}
    landed = {surface: _is_flagged(one, surface) or surface not in failed for surface in where}
    books.flag(
        conn,
        one.id,
        flat_session=where.get(Surface.FLAT),
        thread_session=where.get(Surface.THREAD),
        flat_seeded=landed.get(Surface.FLAT),
        thread_seeded=landed.get(Surface.THREAD),
    )


def _tell(one: Delivered, results: Sequence[Result]) -> None:
    for result in results:
        if result.error is not None:
            _warn(one, result, result.error)
        elif log.isEnabledFor(logging.INFO):
            log.info("A brief was seeded.", extra={"action": "brief_seeded", **_facts(one, result)})


def _warn(one: Delivered, result: Result, error: str) -> None:
    log.warning(
        "The brief of job %s (delivery %s) could not be seeded on its %s surface, session %s; it is tried again: %s",
        one.job,
        one.id,
        result.surface.value,
        result.session_id,
        error,
        extra={"action": "seed_failed", "error": error, **_facts(one, result)},
    )


def _facts(one: Delivered, result: Result) -> dict[str, object]:
    return {"job": one.job, "delivery": one.id, "surface": result.surface.value, "session": result.session_id}


def _when(one: Delivered, at: datetime) -> datetime:
    return one.arrived_at or at


def _existing(conn: Connection, ids: Sequence[str]) -> frozenset[str]:
    return frozenset(conn.execute(_EXISTING, {"ids": ids}).scalars()) if ids else frozenset()
