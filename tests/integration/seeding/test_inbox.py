"""Every message starts at most one thing, whatever the platform repeats; strangers and bots start nothing."""

import logging
from dataclasses import replace
from datetime import datetime

import pytest
from seedbed import Conversation, Rules, place, said
from sqlalchemy import func, select

from delivery.model import Address, ChatKind
from seeding.inbox import ANSWERED_READ, places_to_read
from seeding.model import ChatRules
from seeding.payload import from_payload, to_payload
from state import schema

DM = place("D1", kind=ChatKind.DM)


async def count(talk: Conversation, table=schema.inbound) -> int:
    return await talk.db.read(lambda conn: conn.execute(select(func.count()).select_from(table)).scalar_one())


async def test_a_redelivered_message_is_answered_once(talk: Conversation):
    """B042: the same event at 0, 4 and 15 seconds."""
    message = said("status?", talk.clock.at, address=DM)
    for seconds in (0, 4, 11):
        talk.clock.advance(seconds=seconds)
        await talk.hear(message)
    await talk.respond()
    assert len(talk.agent.asked) == 1


@pytest.mark.parametrize("mention_first", [True, False])
async def test_one_post_that_arrives_as_two_events_is_one_question_in_either_order(talk: Conversation, mention_first):
    """B043."""
    plain = said("status", talk.clock.at)
    pair = [replace(plain, mentioned=True), plain]
    for event in pair if mention_first else reversed(pair):
        await talk.hear(event)
    await talk.respond()
    assert [question.text for question in talk.agent.asked] == ["status"]
    assert await count(talk) == 1


async def test_an_edit_without_a_change_starts_nothing(talk: Conversation):
    """B045 (a)."""
    message = said("status?", talk.clock.at, address=DM)
    await talk.hear(message)
    await talk.respond()
    await talk.hear(replace(message, is_edit=True))
    await talk.respond()
    assert len(talk.agent.asked) == 1


async def test_a_changed_text_before_the_answer_replaces_the_question(talk: Conversation):
    message = said("statsu?", talk.clock.at, address=DM)
    session = await talk.hear(message)
    await talk.hear(replace(message, text="status?", is_edit=True))
    await talk.respond()
    assert [question.text for question in talk.agent.asked] == ["status?"]
    assert await talk.texts(session) == ["status?", "answer 1"]


async def test_a_changed_text_after_the_answer_is_asked_once_in_the_same_conversation(talk: Conversation):
    _, [root] = await talk.post(place(), "text")
    message = said("why?", talk.clock.at, address=place(root=root))
    session = await talk.hear(message)
    await talk.respond()
    for _ in range(2):
        await talk.hear(replace(message, text="why the second?", is_edit=True))
        await talk.respond()
    assert [question.session_id for question in talk.agent.asked] == [session, session]
    assert (await talk.texts(session))[1:] == ["why?", "answer 1", "why the second?", "answer 2"]


async def test_an_edit_that_adds_the_mention_wakes_it(talk: Conversation):
    message = said("status?", talk.clock.at)
    assert await talk.hear(message) is None
    assert await talk.hear(replace(message, text="@cron status?", mentioned=True, is_edit=True)) is not None


async def test_an_edit_that_adds_nothing_but_the_mention_wakes_it_once(talk: Conversation):
    message = said("status?", talk.clock.at)
    assert await talk.hear(message) is None
    for _ in range(2):  # the platform strips the mention, so the text is the same
        assert await talk.hear(replace(message, mentioned=True, is_edit=True)) is not None
        await talk.respond()
    assert [question.text for question in talk.agent.asked] == ["status?"]


async def test_every_change_back_and_forth_is_asked_and_what_is_told_again_is_not(talk: Conversation):
    first = said("A", talk.clock.at, address=DM)
    await talk.hear(first)
    await talk.respond()
    edits = [replace(first, text=text, is_edit=True, at=talk.clock.advance(minutes=1)) for text in ("B", "A", "B")]
    for edit in edits:
        await talk.hear(edit)
        await talk.respond()
    assert [question.text for question in talk.agent.asked] == ["A", "B", "A", "B"]
    for told_again in (first, *edits):
        await talk.hear(told_again)
        await talk.respond()
    assert len(talk.agent.asked) == 4


async def test_an_older_version_that_is_told_again_does_not_replace_a_newer_one(talk: Conversation):
    message = said("A", talk.clock.at, address=DM)
    await talk.hear(message)
    older, newer = (replace(message, text=text, is_edit=True, at=talk.clock.advance(minutes=1)) for text in ("B", "C"))
    await talk.hear(newer)
    await talk.hear(older)
    await talk.respond()
    assert [question.text for question in talk.agent.asked] == ["C"]


@pytest.mark.parametrize("edited", [False, True])
async def test_a_strangers_words_are_stored_nowhere_and_make_one_log_line(talk, rules: Rules, caplog, edited):
    """B096: in the thread of a brief, while an allowed person is being answered."""
    rules.default = ChatRules(allow=frozenset({"U1"}), is_delivered_to=True)
    _, [root] = await talk.post(place(), "text")
    await talk.hear(said("why?", talk.clock.at, address=place(root=root)))
    stranger = said("hijack", talk.clock.at, address=place(root=root), who="U2", mentioned=True)
    with caplog.at_level(logging.INFO):
        await talk.hear(stranger)
        await talk.hear(replace(stranger, text="hijack!", is_edit=edited))
    await talk.respond()
    assert [record.action for record in caplog.records if record.action == "stranger_dropped"] == ["stranger_dropped"]
    assert "hijack" not in caplog.text
    assert len(talk.agent.asked) == 1
    assert "hijack" not in str(talk.agent.asked)
    stored = await talk.db.read(lambda conn: conn.execute(select(schema.inbound.c.payload)).scalars().all())
    assert "hijack" not in str(stored)


async def test_without_a_list_people_are_heard_only_where_a_job_delivers(talk: Conversation, rules: Rules):
    rules.default = ChatRules(is_delivered_to=False)
    assert await talk.hear(said("hello?", talk.clock.at, address=DM)) is None
    rules.default = ChatRules(is_delivered_to=False, everyone=True)
    assert await talk.hear(said("hello?", talk.clock.at, address=DM)) is not None


async def test_another_bot_is_never_heard_not_even_where_everyone_is(talk: Conversation, rules: Rules):
    """B100."""
    rules.default = ChatRules(everyone=True, is_delivered_to=True)
    _, [root] = await talk.post(place(), "text")
    await talk.hear(said("yes A7", talk.clock.at, address=place(root=root), is_bot=True, mentioned=True))
    assert await count(talk) == 0


async def test_hearing_returns_only_when_the_message_is_durable(talk: Conversation):
    class Full:
        async def write(self, fn):
            raise OSError("disk full")

    talk.inbox._db = Full()
    with pytest.raises(OSError, match="disk full"):
        await talk.inbox.hear(said("x", talk.clock.at, address=DM))


def test_a_message_reads_back_as_it_was_heard(talk: Conversation):
    heard = said(
        "héllo\n🎉",
        talk.clock.at,
        address=place("-100", kind=ChatKind.FORUM, topic="5", root="6"),
        mentioned=True,
        thread="4",
        quoted=("1", "2"),
        answers_us=True,
        copied_root=("-3", "9"),
        addressee={"thread_ts": "1.000100"},
    )
    assert from_payload(to_payload(heard)) == heard


async def test_after_a_gap_chats_and_threads_with_recent_briefs_are_read_from_the_last_message_on(talk: Conversation):
    start = talk.clock.at
    _, [message] = await talk.post(place(), "flat")
    await talk.post(place("C2", root="5.0"), "in a thread")
    heard = said("x", talk.clock.advance(hours=1), mentioned=True)
    await talk.hear(heard)
    at = talk.clock.advance(hours=1)
    places = dict(await talk.db.read(lambda conn: places_to_read(conn, "slack", at=at)))
    assert places[place()] == heard.at
    assert {one.chat: one.root for one in places if one.root} == {"C1": message, "C2": "5.0"}
    assert all(since <= start or since == heard.at for since in places.values())
    assert await talk.db.read(lambda conn: places_to_read(conn, "slack", at=talk.clock.advance(days=8))) == ()


async def places_after(talk: Conversation, **delta: float) -> dict[Address, datetime]:
    at = talk.clock.advance(**delta)
    return dict(await talk.db.read(lambda conn: places_to_read(conn, "slack", at=at)))


async def test_after_a_gap_a_dm_in_which_somebody_was_heard_is_read_without_any_brief(talk: Conversation):
    talk.rules.default = ChatRules(is_delivered_to=False, allow=frozenset({"U1"}))
    heard = said("hello", talk.clock.at, address=DM)
    await talk.hear(heard)
    await talk.hear(said("hello", talk.clock.at, address=place("D2", kind=ChatKind.DM), who="U9"))
    await talk.hear(said("just talking", talk.clock.at, address=place("C5")))
    assert await places_after(talk, hours=1) == {DM: heard.at}
    assert await places_after(talk, days=8) == {}


async def test_after_a_gap_the_threads_in_which_we_answered_are_read(talk: Conversation):
    question = said("why?", talk.clock.at, address=place("C7", root="7.000100"), mentioned=True)
    await talk.hear(question)
    await talk.respond()
    places = await places_after(talk, hours=1)
    assert places[place("C7", root="7.000100")] == question.at
    assert places[place("C7")] == question.at


async def test_many_answers_do_not_push_the_threads_of_briefs_out(talk: Conversation):
    _, [brief] = await talk.post(place(), "a brief")
    for n in range(ANSWERED_READ + 5):
        await talk.hear(
            said("why?", talk.clock.advance(seconds=1), address=place("C7", root=f"{n}.000100"), mentioned=True)
        )
        await talk.respond()
    places = await places_after(talk, hours=1)
    assert place(root=brief) in places
    answered = [one.root for one in places if one.chat == "C7" and one.root]
    assert answered == [f"{n}.000100" for n in reversed(range(5, ANSWERED_READ + 5))]
