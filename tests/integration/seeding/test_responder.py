"""Questions are answered once, in order within a session, beside each other across sessions, also after a crash."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from seedbed import Conversation, arrive, place, queue, said
from sqlalchemy import select

from delivery.model import ChatKind
from seeding.model import Origin, Role
from seeding.ports import AnswerFailed
from seeding.questions import transcript_of
from seeding.responder import GAVE_UP, WENT_WRONG
from state import schema

LABEL = "[Cron delivery: build-health]\n"
DM = place("D1", kind=ChatKind.DM)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; fail if it never does."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to that")


async def test_the_agent_is_given_the_brief_then_the_question_last(talk: Conversation):
    delivery, _ = await talk.post(DM, "3 builds failed")
    session = await talk.hear(said("why the second?", talk.clock.at, address=DM))
    await talk.respond()
    [question] = talk.agent.asked
    assert (question.text, question.author, question.job, question.session_id, question.attempt) == (
        "why the second?",
        "Kim",
        "build-health",
        session,
        1,
    )
    assert [(turn.text, turn.origin) for turn in question.transcript] == [
        (LABEL + "3 builds failed", Origin.CRON),
        ("why the second?", Origin.INBOUND),
    ]
    [cron, asked, answer] = await talk.db.read(lambda conn: transcript_of(conn, session))
    assert cron.delivery_id == delivery
    assert (asked.text, asked.author, asked.role) == ("why the second?", "Kim", Role.USER)
    assert (answer.text, answer.origin, answer.role) == ("answer 1", Origin.ANSWER, Role.ASSISTANT)


async def test_the_answer_goes_where_the_question_came_from(talk: Conversation):
    _, [root] = await talk.post(place(), "text")
    await talk.hear(said("flat?", talk.clock.at, mentioned=True))
    await talk.hear(said("thread?", talk.clock.at, address=place(root=root)))
    await talk.respond()
    query = select(schema.deliveries.c.thread).where(schema.deliveries.c.kind == "answer").order_by("seq")
    assert sorted(map(str, await talk.db.read(lambda conn: conn.execute(query).scalars().all()))) == sorted(
        ["None", root]
    )
    assert len(talk.chats["slack"].working_at) == 2
    assert talk.chats["slack"].at_work == 0


async def test_questions_of_one_session_wait_for_each_other_and_those_of_others_do_not(talk: Conversation):
    talk.agent.gate.clear()
    other = place("D2", kind=ChatKind.DM)
    for words, address in (("one", DM), ("two", DM), ("else", other)):
        await talk.hear(said(words, talk.clock.at, address=address))
    await talk.responder.look()
    await until(lambda: len(talk.agent.asked) == 2)
    await talk.responder.look()
    assert sorted(question.text for question in talk.agent.asked) == ["else", "one"]
    talk.agent.gate.set()
    await talk.respond()
    assert [question.text for question in talk.agent.asked][2:] == ["two"]
    assert [turn.text for turn in talk.agent.asked[2].transcript][0::2] == ["one", "two"]


async def test_the_second_question_is_asked_only_when_the_first_answer_has_arrived(talk: Conversation):
    for words in ("one", "two"):
        await talk.hear(said(words, talk.clock.at, address=DM))
    await talk.responder.look()
    await asyncio.gather(*talk.responder._busy.values())
    await talk.responder.look()
    [question] = talk.agent.asked
    assert [turn.text for turn in question.transcript] == ["one"]  # what waits behind it is no part of it
    await talk.deliver()
    await talk.responder.look()
    await until(lambda: len(talk.agent.asked) == 2)
    assert [turn.text for turn in talk.agent.asked[1].transcript] == ["one", "answer 1", "two"]


async def interrupt(talk: Conversation) -> None:
    """End the process, as far as the rows can tell, while an agent is at work."""
    talk.agent.gate.clear()
    await talk.responder.look()
    await until(lambda: bool(talk.agent.asked))
    await talk.responder.drain(0, talk.clock.sleep)


async def test_a_question_that_was_cut_off_is_answered_once_after_the_restart(talk, db, clock, rules):
    await talk.hear(said("why?", clock.at, address=DM))
    await interrupt(talk)
    again = Conversation(db, clock, rules)
    await again.respond()
    await again.respond()
    assert [(question.text, question.attempt) for question in again.agent.asked] == [("why?", 2)]


async def test_a_question_that_kills_the_process_twice_is_given_up_and_told(talk, db, clock, rules, caplog):
    message = said("why?", clock.at, address=DM)
    await talk.hear(message)
    await interrupt(talk)
    await interrupt(second := Conversation(db, clock, rules))
    third = Conversation(db, clock, rules)
    with caplog.at_level(logging.WARNING):
        await third.respond()
    assert len(second.agent.asked) == 1 and third.agent.asked == []
    row = await third.row(message)
    assert (row.state, row.reason, row.attempts) == ("gave_up", "interrupted", 2)
    assert await third.notices() == [GAVE_UP]
    assert "question_given_up" in [record.action for record in caplog.records]


async def test_an_old_question_is_not_answered_out_of_the_blue(talk, db, clock, rules):
    await talk.hear(said("why?", clock.at, address=DM))
    await interrupt(talk)
    clock.advance(hours=2)
    again = Conversation(db, clock, rules)
    await again.respond()
    assert again.agent.asked == []
    assert await again.notices() == [GAVE_UP]


async def test_an_answer_that_is_durable_is_never_asked_for_again(talk, db, clock, rules):
    await talk.hear(said("why?", clock.at, address=DM))
    await talk.responder.look()
    await asyncio.gather(*talk.responder._busy.values())
    again = Conversation(db, clock, rules)
    await again.respond()
    assert len(talk.agent.asked) == 1 and again.agent.asked == []
    assert (await again.db.read(lambda conn: conn.execute(select(schema.inbound.c.state)).scalar())) == "answered"


async def test_shutdown_lets_an_agent_finish(talk: Conversation):
    talk.agent.gate.clear()
    await talk.hear(said("why?", talk.clock.at, address=DM))
    await talk.responder.look()
    await until(lambda: bool(talk.agent.asked))

    async def patient(_: float) -> None:
        await asyncio.Event().wait()

    draining = asyncio.create_task(talk.responder.drain(20, patient))
    await asyncio.sleep(0)
    talk.agent.gate.set()
    await draining
    assert await talk.deliver() == ["answer 1"]


@pytest.mark.parametrize(
    ("error", "told"),
    [(AnswerFailed("The model is overloaded."), "The model is overloaded."), (ValueError("bug"), WENT_WRONG)],
)
async def test_an_agent_that_fails_is_told_and_the_next_question_is_answered(talk: Conversation, error, told):
    talk.agent.error = error
    await talk.hear(said("one", talk.clock.at, address=DM))
    await talk.respond()
    assert await talk.notices() == [told]
    talk.agent.error = None
    session = await talk.hear(said("two", talk.clock.at, address=DM))
    await talk.respond()
    assert await talk.texts(session) == ["one", "two", "answer 2"]


async def test_an_answer_in_doubt_is_a_turn_marked_unconfirmed_until_it_is_proven(talk: Conversation):
    session = await talk.hear(said("why?", talk.clock.at, address=DM))
    await talk.responder.look()
    await asyncio.gather(*talk.responder._busy.values())

    def doubt(conn):
        conn.execute(schema.parts.update().values(state="in_doubt", told_at=talk.clock.at))
        conn.execute(schema.deliveries.update().values(state="in_doubt"))
        return conn.execute(select(schema.deliveries.c.id)).scalar_one()

    delivery = await talk.db.write(doubt)
    await talk.responder.look()
    [_, answer] = await talk.db.read(lambda conn: transcript_of(conn, session))
    assert (answer.text, answer.is_unconfirmed) == ("answer 1", True)
    landed = place("D1", kind=ChatKind.DM, message="9.9")
    await talk.db.write(lambda conn: arrive(conn, talk.seeder, delivery, 1, landed, at=talk.clock.at))
    [_, answer] = await talk.db.read(lambda conn: transcript_of(conn, session))
    assert (answer.text, answer.is_unconfirmed) == ("answer 1", False)


async def test_an_answer_that_is_refused_does_not_hold_up_the_next(talk: Conversation):
    await talk.hear(said("one", talk.clock.at, address=DM))
    await talk.responder.look()
    await asyncio.gather(*talk.responder._busy.values())

    def refuse(conn):
        conn.execute(schema.parts.update().values(state="rejected"))
        conn.execute(schema.deliveries.update().values(state="failed", error="channel_archived"))

    await talk.db.write(refuse)
    await talk.hear(said("two", talk.clock.at, address=DM))
    await talk.respond()
    assert [question.text for question in talk.agent.asked] == ["one", "two"]


async def test_a_brief_that_perhaps_arrived_is_given_with_that_remark(talk: Conversation):
    def doubtful(conn):
        queue(conn, talk.clock.at, DM, "3 builds failed")
        conn.execute(schema.parts.update().values(state="in_doubt", told_at=talk.clock.at))

    await talk.db.write(doubtful)
    session = await talk.hear(said("why?", talk.clock.at, address=DM))
    await talk.respond()
    [question] = talk.agent.asked
    assert [(turn.text, turn.is_unconfirmed) for turn in question.transcript] == [
        (LABEL + "3 builds failed\n[nobody knows whether this brief arrived]", True),
        ("why?", False),
    ]
    assert await talk.texts(session) == ["why?", "answer 1"]


async def test_the_brief_that_is_quoted_is_named_and_given_however_old_it_is(talk: Conversation):
    thread = place(root="5.0")
    first, [message] = await talk.post(thread, "first", job="one")
    for n in range(3):
        await talk.post(thread, f"later {n}", job="two")
    await talk.hear(said("the first?", talk.clock.at, address=thread, quoted=(message,)))
    await talk.respond()
    [question] = talk.agent.asked
    assert (question.job, question.briefs) == ("one", {first})


async def test_the_loops_carry_a_question_from_hearing_to_answer_by_themselves(talk: Conversation):
    loops = [asyncio.create_task(talk.router.run()), asyncio.create_task(talk.responder.run())]
    try:
        await talk.post(DM, "3 builds failed")
        await talk.inbox.hear(said("why?", talk.clock.at, address=DM))
        await until(lambda: bool(talk.agent.asked))
    finally:
        await talk.router.stop()
        await talk.responder.drain(20, talk.clock.sleep)
        await asyncio.wait_for(asyncio.gather(*loops), 5)
    assert [turn.text for turn in talk.agent.asked[0].transcript] == [LABEL + "3 builds failed", "why?"]


async def test_a_command_that_was_cut_off_is_told_and_not_carried_out_twice(talk, db, clock, rules):
    from seeding.model import ChatRules
    from seeding.responder import CUT_OFF

    rules.default = ChatRules(allow=frozenset({"U1"}), is_delivered_to=True)
    begun = asyncio.Event()

    class Hanging:
        async def run(self, words, inbound):
            begun.set()
            await asyncio.Event().wait()

    talk.router._commands = Hanging()
    await talk.inbox.hear(said("/cron run build-health", clock.at, address=DM))
    await talk.router.look()
    await begun.wait()
    for task in list(talk.router._busy.values()):
        task.cancel()
    clock.advance(seconds=1)
    again = Conversation(db, clock, rules)
    loop = asyncio.create_task(again.responder.run())
    for _ in range(200):
        if await again.notices():
            break
        await asyncio.sleep(0.005)
    await again.route()
    await again.responder.drain(1, clock.sleep)
    await loop
    assert await again.notices() == [CUT_OFF]
    assert again.talk.words == []
