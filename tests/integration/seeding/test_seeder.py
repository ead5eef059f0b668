"""A brief that arrived is in every session where its answer can land, by explicit id, once."""

import logging

import pytest
from seedbed import Clock, Rules, arrive, delivery_row, place, post, queue, texts, turns
from sqlalchemy import func, select

from delivery.model import ChatKind, DeliveryKind, PartKind, Surface
from delivery.outbox import confirm_part
from delivery.ports import Settled
from seeding import sessions
from seeding.keys import flat_key, thread_key
from seeding.model import ChatRules, Origin, Role, SessionScope
from seeding.seeder import Seeder
from state import schema
from state.database import Database

BRIEF = "[Cron delivery: build-health]\n3 builds failed"


def slack_flat(chat="C1", topic=None):
    return flat_key(account="slack", workspace="T1", chat=chat, topic=topic)


def slack_thread(message, chat="C1"):
    return thread_key(account="slack", workspace="T1", chat=chat, message=message)


async def bound(db, *keys):
    found = await db.read(lambda conn: sessions.bound(conn, keys))
    return [found.get(key) for key in keys]


async def test_a_flat_brief_is_in_the_chats_session_and_in_its_own(db: Database, seeder: Seeder, clock: Clock):
    delivery, [message] = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "3 builds failed"))

    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert (row.flat_seeded, row.thread_seeded) == (True, True)
    assert row.flat_session != row.thread_session
    assert await bound(db, slack_flat(), slack_thread(message)) == [row.flat_session, row.thread_session]
    for session in (row.flat_session, row.thread_session):
        [turn] = await db.read(lambda conn, session=session: turns(conn, session))
        assert (turn.text, turn.role, turn.origin, turn.job) == (BRIEF, Role.USER, Origin.CRON, "build-health")


async def test_nothing_is_seeded_before_the_platform_confirmed(db: Database, seeder: Seeder, clock: Clock):
    delivery = await db.write(lambda conn: queue(conn, clock.at, place(), "3 builds failed"))
    await db.write(lambda conn: seeder.settled(conn, Settled(delivery_id=delivery, at=clock.at)))

    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert (row.flat_seeded, row.thread_seeded, row.flat_session) == (False, False, None)
    assert await db.read(lambda conn: conn.execute(select(func.count()).select_from(schema.turns)).scalar()) == 0


async def test_seeding_twice_is_seeding_once(db: Database, seeder: Seeder, clock: Clock):
    delivery, _ = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "one"))
    before = await db.read(lambda conn: conn.execute(select(schema.turns)).all())
    for _ in range(3):
        await db.write(lambda conn: seeder.settled(conn, Settled(delivery_id=delivery, at=clock.advance(hours=1))))
    assert await db.read(lambda conn: conn.execute(select(schema.turns)).all()) == before


async def test_the_stored_turn_is_the_concatenation_of_the_delivered_parts(db, seeder, clock):
    delivery, messages = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "one\n", "two\n", "three"))
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert await db.read(lambda conn: texts(conn, row.thread_session)) == [
        "[Cron delivery: build-health]\none\ntwo\nthree"
    ]
    assert await bound(db, *map(slack_thread, messages)) == [row.thread_session] * 3


async def test_a_missing_part_is_marked_and_a_part_proven_later_extends_the_turn(db, seeder, clock):
    def two_of_three(conn):
        delivery = queue(conn, clock.at, place(), "one", "two", "three")
        conn.execute(schema.parts.update().where(schema.parts.c.n == 2).values(state="in_doubt", told_at=clock.at))
        arrive(conn, seeder, delivery, 1, place(message="1.1"), at=clock.at)
        arrive(conn, seeder, delivery, 3, place(message="1.3"), at=clock.at)
        return delivery

    delivery = await db.write(two_of_three)
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    marked = "[Cron delivery: build-health]\none\n[part 2 of 3 may not have arrived]\nthree"
    assert await db.read(lambda conn: texts(conn, row.flat_session)) == [marked]
    assert await db.read(lambda conn: texts(conn, row.thread_session)) == [marked]

    await db.write(lambda conn: arrive(conn, seeder, delivery, 2, place(message="1.2"), at=clock.advance(days=1)))
    whole = "[Cron delivery: build-health]\nonetwothree"
    assert await db.read(lambda conn: texts(conn, row.flat_session)) == [whole]
    assert await db.read(lambda conn: texts(conn, row.thread_session)) == [whole]
    assert await bound(db, slack_thread("1.2")) == [row.thread_session]


async def test_a_thread_opened_by_a_header_is_the_briefs_own_session(db, seeder, clock):
    def run(conn):
        delivery = queue(conn, clock.at, place(), "3 builds failed", surface=Surface.THREAD, opening=PartKind.HEADER)
        arrive(conn, seeder, delivery, 0, place(message="7.0"), at=clock.at)
        arrive(conn, seeder, delivery, 1, place(message="7.1", root="7.0"), at=clock.at)
        return delivery

    delivery = await db.write(run)
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert (row.flat_seeded, row.thread_seeded) == (True, True)
    assert await bound(db, slack_flat(), slack_thread("7.0"), slack_thread("7.1")) == [
        row.flat_session,
        row.thread_session,
        row.thread_session,
    ]
    own = await db.read(lambda conn: sessions.get(conn, row.thread_session))
    assert (own.root, own.job) == ("7.0", "build-health")
    assert await db.read(lambda conn: texts(conn, row.thread_session)) == [BRIEF]


async def test_a_standing_thread_keeps_one_session_and_the_channel_hears_nothing(db, seeder, clock):
    thread = place(root="5.0")
    first, _ = await db.write(lambda conn: post(conn, seeder, clock.at, thread, "monday"))
    second, _ = await db.write(lambda conn: post(conn, seeder, clock.advance(days=1), thread, "tuesday", job="other"))

    rows = [await db.read(lambda conn, d=d: delivery_row(conn, d)) for d in (first, second)]
    assert [row.flat_seeded for row in rows] == [None, None]
    assert [row.flat_session for row in rows] == [None, None]
    assert rows[0].thread_session == rows[1].thread_session
    assert await bound(db, slack_flat(), slack_thread("5.0")) == [None, rows[0].thread_session]
    assert await db.read(lambda conn: texts(conn, rows[0].thread_session)) == [
        "[Cron delivery: build-health]\nmonday",
        "[Cron delivery: other]\ntuesday",
    ]


async def test_a_topic_opened_for_the_run_is_the_briefs_own_session(db, seeder, clock):
    forum = place("-100", kind=ChatKind.FORUM, account="telegram", workspace="99")

    def at(**more):
        return place("-100", kind=ChatKind.FORUM, account="telegram", workspace="99", **more)

    def run(conn):
        delivery = queue(conn, clock.at, forum, "text", surface=Surface.THREAD, opening=PartKind.TOPIC)
        arrive(conn, seeder, delivery, 0, at(message="23", topic="23"), at=clock.at)
        arrive(conn, seeder, delivery, 1, at(message="24", topic="23"), at=clock.at)
        return delivery

    delivery = await db.write(run)
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    of_chat = flat_key(account="telegram", workspace="99", chat="-100")
    of_topic = flat_key(account="telegram", workspace="99", chat="-100", topic="23")
    message = thread_key(account="telegram", workspace="99", chat="-100", message="24")
    assert await bound(db, of_chat, of_topic, message) == [row.flat_session, row.thread_session, row.thread_session]
    assert row.flat_session != row.thread_session


async def test_a_job_that_does_not_continue_leaves_no_trace_in_conversations(db, seeder, clock):
    def run(conn):
        delivery = queue(conn, clock.at, place(), "text", continues=False)
        arrive(conn, seeder, delivery, 1, place(message="1.1"), at=clock.at)
        return delivery

    delivery = await db.write(run)
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert (row.flat_seeded, row.thread_seeded, row.flat_session, row.thread_session) == (None, None, None, None)
    assert await db.read(lambda conn: conn.execute(select(schema.sessions)).all()) == []


def break_turns(surface_is_flat: bool) -> str:
    """Return a trigger that refuses turns of flat (or of thread) sessions, as a real constraint would."""
    which = "IS NULL" if surface_is_flat else "IS NOT NULL"
    return (
        "CREATE TRIGGER refuse BEFORE INSERT ON turns WHEN"
        f" (SELECT root FROM sessions WHERE id = NEW.session_id) {which}"
        " BEGIN SELECT RAISE(ABORT, 'this session is refused'); END"
    )


def run_ddl(path, statement):
    """Change the layout the way a migration does: in another connection, while nothing is written."""
    import sqlite3

    with sqlite3.connect(path) as conn:
        conn.execute(statement)
    conn.close()


@pytest.mark.parametrize("is_flat", [True, False], ids=["flat", "thread"])
async def test_a_seed_that_fails_is_a_warning_with_everything_in_it_and_lands_on_the_next_try(
    tmp_path, rules, clock, caplog, is_flat
):
    from seedbed import opened

    seeder = Seeder(rules)
    with opened(tmp_path):
        pass
    run_ddl(tmp_path / "state.db", break_turns(is_flat))
    bad, good = ("flat", "thread") if is_flat else ("thread", "flat")
    with opened(tmp_path) as db, caplog.at_level(logging.WARNING):
        delivery, _ = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "3 builds failed"))
        row = await db.read(lambda conn: delivery_row(conn, delivery))
        assert (getattr(row, f"{bad}_seeded"), getattr(row, f"{good}_seeded")) == (False, True)
        assert row.state == "sent"
        assert await db.read(lambda conn: texts(conn, getattr(row, f"{good}_session"))) == [BRIEF]
        [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
        session = getattr(row, f"{bad}_session")
        assert (warning.action, warning.job, warning.delivery, warning.surface, warning.session) == (
            "seed_failed",
            "build-health",
            delivery,
            bad,
            session,
        )
        for fact in ("build-health", delivery, bad, session, "this session is refused"):
            assert fact in warning.getMessage()
        assert "3 builds failed" not in warning.getMessage()
        assert await seeder.retry_owed(db, at=clock.advance(minutes=1)) == 0
        books = await db.read(lambda conn: conn.execute(select(schema.seeds).order_by("surface")).all())
        assert [(one.surface, one.state, one.attempts) for one in books] == [
            ("flat", "owed" if is_flat else "landed", 2 if is_flat else 1),
            ("thread", "landed" if is_flat else "owed", 1 if is_flat else 2),
        ]
    run_ddl(tmp_path / "state.db", "DROP TRIGGER refuse")
    with opened(tmp_path) as db:
        assert await seeder.retry_owed(db, at=clock.advance(minutes=1)) == 1
        row = await db.read(lambda conn: delivery_row(conn, delivery))
        assert (row.flat_seeded, row.thread_seeded) == (True, True)
        assert getattr(row, f"{bad}_session") == session
        assert await db.read(lambda conn: texts(conn, session)) == [BRIEF]
        assert await seeder.retry_owed(db, at=clock.advance(minutes=1)) == 0


async def test_a_delivery_that_nobody_began_to_seed_is_found_and_seeded(db, seeder, clock):
    class Crashing:
        def settled(self, conn, settled):
            raise RuntimeError("killed here")

    def run(conn):
        delivery = queue(conn, clock.at, place(), "3 builds failed")
        from delivery.model import Receipt

        confirm_part(
            conn,
            delivery,
            1,
            Receipt(address=place(message="1.1"), at=clock.at),
            at=clock.at,
            settlement=Crashing(),
        )
        return delivery

    delivery = await db.write(run)
    assert await seeder.retry_owed(db, at=clock.advance(minutes=1)) == 1
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert (row.flat_seeded, row.thread_seeded) == (True, True)


async def test_in_a_populated_chat_the_right_sessions_get_the_brief(db, seeder, clock):
    """One flat session, twenty threads, several people: seeded by explicit id, never by a guess."""
    threads = []
    for n in range(20):
        delivery, _ = await db.write(lambda conn, n=n: post(conn, seeder, clock.at, place(root=f"{n}.9"), f"old {n}"))
        threads.append((await db.read(lambda conn, d=delivery: delivery_row(conn, d))).thread_session)
    flat, _ = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "first"))
    before = {one: await db.read(lambda conn, one=one: texts(conn, one)) for one in threads}

    delivery, [message] = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "second"))
    other, _ = await db.write(lambda conn: post(conn, seeder, clock.at, place("C2"), "elsewhere"))

    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert row.flat_session == (await db.read(lambda conn: delivery_row(conn, flat))).flat_session
    assert row.flat_session != (await db.read(lambda conn: delivery_row(conn, other))).flat_session
    assert row.thread_session not in threads
    assert await bound(db, slack_thread(message)) == [row.thread_session]
    assert {one: await db.read(lambda conn, one=one: texts(conn, one)) for one in threads} == before


async def test_where_each_person_has_a_session_the_flat_seed_is_not_owed_yet(db, clock):
    seeder = Seeder(Rules(ChatRules(sessions=SessionScope.PER_USER, is_delivered_to=True)))
    delivery, _ = await db.write(lambda conn: post(conn, seeder, clock.at, place(), "text"))
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    assert (row.flat_seeded, row.thread_seeded) == (None, True)


async def test_what_the_agent_is_told_to_send_is_its_own_turn_and_never_the_second_in_a_row(db, seeder, clock):
    def send(conn, words, message):
        delivery = queue(conn, clock.at, place(), words, kind=DeliveryKind.SEND)
        arrive(conn, seeder, delivery, 1, place(message=message), at=clock.at)

    await db.write(lambda conn: send(conn, "hello", "1.1"))
    await db.write(lambda conn: send(conn, "again", "1.2"))
    [session, *others] = set(await bound(db, slack_flat(), slack_thread("1.1"), slack_thread("1.2")))
    assert others == []
    stored = await db.read(lambda conn: turns(conn, session))
    assert [(turn.role, turn.text, turn.origin) for turn in stored] == [
        (Role.ASSISTANT, "hello", Origin.SEND),
        (Role.USER, "[Message sent: hermes-cron send]\nagain", Origin.SEND),
    ]


async def test_a_group_that_became_a_supergroup_keeps_its_flat_conversation(db, seeder, clock):
    group = place("-5", kind=ChatKind.GROUP, account="telegram", workspace="99")
    delivery, [message] = await db.write(lambda conn: post(conn, seeder, clock.at, group, "text"))
    row = await db.read(lambda conn: delivery_row(conn, delivery))
    for _ in range(2):
        await db.write(lambda conn: seeder.chat_moved(conn, "telegram", "-5", "-1005", at=clock.at))

    def key(chat):
        return flat_key(account="telegram", workspace="99", chat=chat)

    quoted = thread_key(account="telegram", workspace="99", chat="-5", message=message)
    assert await bound(db, key("-5"), key("-1005"), quoted) == [None, row.flat_session, row.thread_session]
