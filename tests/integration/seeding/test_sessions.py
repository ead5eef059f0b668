"""Conversations as they are listed, searched and removed; mirrors by explicit id."""

import logging

import pytest
from seedbed import Clock, Conversation, delivery_row, place, said, texts
from sqlalchemy import func, insert, select

from seeding import sessions
from seeding.mirror import Place, mirror
from seeding.moves import chat_moved
from seeding.sessions import NewSession, find_session_by_origin
from state import schema
from state.database import Database


async def make(db: Database, clock: Clock, *wanted: NewSession) -> None:
    await db.write(lambda conn: sessions.create(conn, wanted, at=clock.at))


def flat(name: str, **more: object) -> NewSession:
    return NewSession(id=name, address=place(), **more)


async def test_a_mirror_by_id_never_searches(db: Database, clock: Clock, caplog: pytest.LogCaptureFixture):
    await make(db, clock, flat("s1"), flat("s2", user="U1"), flat("s3", root="9.9"))
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            await db.write(
                lambda conn: mirror(
                    conn,
                    session_id="s2",
                    text="brief",
                    job="j]\nx",
                    at=clock.at,
                    place=Place(account="slack", chat="C1"),
                )
            )
    assert [await db.read(lambda conn, s=s: texts(conn, s)) for s in ("s1", "s3")] == [[], []]
    assert (await db.read(lambda conn: texts(conn, "s2")))[0] == "[Cron delivery: j) x]\nbrief"
    assert caplog.records == []


async def test_a_search_by_origin_takes_the_only_one_and_says_so(db: Database, clock: Clock, caplog):
    await make(db, clock, flat("s1"), flat("s3", root="9.9"), flat("s4", user="U1"))
    with caplog.at_level(logging.WARNING):
        found = await db.write(
            lambda conn: mirror(conn, text="b", job="j", at=clock.at, place=Place(account="slack", chat="C1"))
        )
    assert found == "s1"
    assert [(r.action, r.session, r.found) for r in caplog.records] == [("session_searched_by_origin", "s1", 1)]


async def test_a_search_that_finds_several_takes_none(db: Database, clock: Clock, caplog):
    await make(db, clock, flat("s1"), flat("s2"))
    with caplog.at_level(logging.WARNING):
        found = await db.write(
            lambda conn: mirror(conn, text="b", job="j", at=clock.at, place=Place(account="slack", chat="C1"))
        )
    assert found is None
    assert caplog.records[0].found == 2
    assert await db.read(lambda conn: find_session_by_origin(conn, account="slack", chat="C9")) is None


async def test_a_session_is_listed_with_its_keys_its_turns_and_a_name_for_people(talk: Conversation):
    await talk.db.write(
        lambda conn: (
            conn.execute(
                insert(schema.directory).values(
                    account="slack", chat="C1", topic="", name="#ops", kind="channel", updated_at=talk.clock.at
                )
            ).rowcount
        )
    )
    delivery, _ = await talk.post(place(), "text")
    row = await talk.db.read(lambda conn: delivery_row(conn, delivery))
    listed = {one.session.id: one for one in await talk.db.read(sessions.list_sessions)}
    assert {one.session.display_name for one in listed.values()} == {"#ops", "#ops / build-health"}
    assert (listed[row.flat_session].turns, listed[row.flat_session].keys) == (1, ("flat:slack:T1:C1",))
    assert [key.split(":")[0] for key in listed[row.thread_session].keys] == ["thread"]


async def test_forgetting_a_session_removes_its_turns_and_keys_and_nothing_else(talk: Conversation):
    delivery, _ = await talk.post(place(), "text")
    row = await talk.delivery(delivery)
    assert await talk.db.write(lambda conn: sessions.forget(conn, row.flat_session)) is True
    assert await talk.db.write(lambda conn: sessions.forget(conn, row.flat_session)) is False
    assert await talk.texts(row.flat_session) == []
    assert [one.session.id for one in await talk.db.read(sessions.list_sessions)] == [row.thread_session]
    fresh = await talk.hear(said("hello", talk.clock.at, mentioned=True))
    assert await talk.texts(fresh) == ["hello"]


async def test_a_forgotten_question_is_not_answered(talk: Conversation):
    message = said("hello", talk.clock.at, mentioned=True)
    session = await talk.hear(message)
    await talk.db.write(lambda conn: sessions.forget(conn, session))
    await talk.respond()
    assert talk.agent.asked == []
    assert (await talk.row(message)).state == "gave_up"


async def test_expiry_work_is_noted_on_the_session(db: Database, clock: Clock):
    await make(db, clock, flat("s1"))
    assert await db.write(lambda conn: sessions.set_expiry_finalized(conn, "s1", True)) is True
    assert await db.write(lambda conn: sessions.set_expiry_finalized(conn, "nobody", True)) is False
    assert [one.expiry_finalized for one in await db.read(sessions.list_gateway_sessions)] == [True]


async def test_a_channel_that_keeps_its_messages_moves_with_its_threads(talk: Conversation):
    delivery, [message] = await talk.post(place(), "text")
    row = await talk.delivery(delivery)
    await talk.db.write(lambda conn: chat_moved(conn, "slack", "C1", "C9", at=talk.clock.at, keeps_messages=True))
    assert await talk.hear(said("?", talk.clock.at, address=place("C9", root=message))) == row.thread_session
    assert await talk.hear(said("?", talk.clock.at, address=place("C9"), mentioned=True)) == row.flat_session


async def test_hundreds_of_keys_are_looked_up_in_one_go(db: Database, clock: Clock):
    await make(db, clock, flat("s1"))
    keys = [f"thread:slack:T1:C1:{n}" for n in range(100)]
    await db.write(lambda conn: sessions.bind(conn, "s1", keys, at=clock.at))
    assert await db.read(lambda conn: len(sessions.bound(conn, keys))) == 100
    assert (
        await db.read(lambda conn: conn.execute(select(func.count()).select_from(schema.session_keys)).scalar()) == 100
    )
