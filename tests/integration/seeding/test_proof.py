"""An answer is a receipt only if it surely is under the message in question; else the brief is handed over marked."""

from datetime import timedelta

import pytest
from seedbed import Clock, Conversation, Rules, delivery_row, place, queue, said, turns
from sqlalchemy import select

from delivery import outbox
from delivery.model import ChatKind, DeliveryKind
from delivery.ports import Settled
from seeding.believed import WORD
from seeding.model import ChatRules
from state import schema

LABEL = "[Cron delivery: build-health]\n"
DOUBT = "\n[nobody knows whether this brief arrived]"
QUOTING = ChatRules(has_threads=False, is_delivered_to=True)


@pytest.fixture
def rules() -> Rules:
    return Rules(**{"-100": QUOTING})


def group(**more):
    return place("-100", kind=ChatKind.GROUP, account="telegram", workspace="99", **more)


async def begun(talk: Conversation, address, text: str, state: str = "in_doubt", **more) -> str:
    """A delivery whose one part was begun now and has no receipt."""

    def write(conn):
        delivery = queue(conn, talk.clock.at, address, text, **more)
        of_it = schema.parts.c.delivery_id == delivery
        conn.execute(schema.parts.update().where(of_it).values(state=state, intent_at=talk.clock.at))
        conn.execute(schema.deliveries.update().where(schema.deliveries.c.id == delivery).values(state=state))
        return delivery

    return await talk.db.write(write)


def answer(talk: Conversation, address, posted, **more):
    return said("why?", talk.clock.at, address=address, answers_us=True, answered_at=posted, **more)


async def state_of(talk: Conversation, delivery: str) -> str:
    return (await talk.delivery(delivery)).state


async def briefs_given(talk: Conversation) -> list[str]:
    await talk.respond()
    return [turn.text for turn in talk.agent.asked[-1].transcript if turn.origin == "cron"]


async def test_a_message_of_ours_that_stood_there_before_the_brief_proves_nothing(talk: Conversation, clock: Clock):
    old = clock.at
    clock.advance(seconds=3)
    delivery = await begun(talk, place(), "3 builds failed")
    clock.advance(minutes=1)
    await talk.hear(answer(talk, place(root="1.1"), old))
    assert await state_of(talk, delivery) == "in_doubt"


async def test_a_message_of_ours_that_was_posted_long_after_the_brief_proves_nothing(talk, clock):
    delivery = await begun(talk, place(), "3 builds failed")
    clock.advance(hours=1)
    await talk.hear(answer(talk, place(root="1.1"), clock.at))
    assert await state_of(talk, delivery) == "in_doubt"


async def test_a_message_of_ours_of_which_no_time_is_known_proves_nothing(talk, clock):
    delivery = await begun(talk, place(), "3 builds failed")
    await talk.hear(answer(talk, place(root="1.1"), None))
    assert await state_of(talk, delivery) == "in_doubt"
    assert await briefs_given(talk) == [LABEL + "3 builds failed" + DOUBT]


async def test_an_answered_message_with_another_text_proves_nothing(talk, clock):
    delivery = await begun(talk, group(), "3 builds failed")
    asked = answer(talk, group(root="31"), clock.at + timedelta(seconds=1), answered_text="All is well")
    await talk.hear(asked)
    assert await state_of(talk, delivery) == "in_doubt"


async def test_an_answered_message_with_the_text_that_was_shown_is_the_receipt_even_if_the_clocks_differ(talk, clock):
    delivery = await begun(talk, group(), "3  builds\nfailed")
    asked = answer(talk, group(root="31"), clock.at - timedelta(seconds=20), answered_text="3 builds failed")
    session = await talk.hear(asked)
    row = await talk.delivery(delivery)
    assert (row.state, row.thread_session) == ("sent", session)


async def test_of_two_briefs_in_doubt_the_text_tells_which_is_answered(talk, clock):
    first = await begun(talk, group(), "one")
    second = await begun(talk, group(), "two")
    posted = clock.at + timedelta(seconds=1)
    session = await talk.hear(answer(talk, group(root="31"), posted, answered_text="one"))
    assert (await state_of(talk, first), await state_of(talk, second)) == ("sent", "in_doubt")
    assert session == (await talk.delivery(first)).thread_session
    assert await briefs_given(talk) == [LABEL + "one"]


async def test_of_two_briefs_in_doubt_the_time_tells_which_is_answered(talk, clock):
    first = await begun(talk, place(), "one")
    at_first = clock.advance(seconds=1)
    clock.advance(seconds=30)
    second = await begun(talk, place(), "two")
    at_second = clock.advance(seconds=1)
    one = await talk.hear(answer(talk, place(root="2.2"), at_second))
    assert (await state_of(talk, first), await state_of(talk, second)) == ("in_doubt", "sent")
    other = await talk.hear(answer(talk, place(root="1.1"), at_first))
    assert await state_of(talk, first) == "sent"
    assert one == (await talk.delivery(second)).thread_session
    assert other == (await talk.delivery(first)).thread_session


async def test_briefs_in_doubt_that_cannot_be_told_apart_are_all_given_as_perhaps_arrived(talk, clock):
    await begun(talk, place(), "one")
    await begun(talk, place(), "two")
    await talk.hear(answer(talk, place(root="1.1"), None))
    assert await briefs_given(talk) == [LABEL + "one" + DOUBT, LABEL + "two" + DOUBT]


async def test_a_brief_in_doubt_that_is_older_than_the_newest_brief_is_given_before_it(talk, clock):
    dm = place("D1", kind=ChatKind.DM)
    await begun(talk, dm, "one")
    clock.advance(minutes=1)
    await talk.post(dm, "two")
    clock.advance(minutes=1)
    await talk.hear(said("what is this?", clock.at, address=dm))
    assert await briefs_given(talk) == [LABEL + "one" + DOUBT, LABEL + "two"]


async def test_an_answer_while_the_send_takes_longer_than_the_patience_is_about_the_brief(talk, clock):
    delivery = await begun(talk, place(), "3 builds failed", "sending")
    posted = clock.advance(seconds=1)
    session = await talk.hear(answer(talk, place(root="1.1"), posted))
    assert clock.monotonic() >= 5
    assert (await talk.delivery(delivery)).thread_session == session
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?"]


async def test_a_plain_message_while_the_send_takes_longer_than_the_patience_has_the_brief_marked(talk, clock):
    dm = place("D1", kind=ChatKind.DM)
    await begun(talk, dm, "3 builds failed", "sending")
    await talk.hear(said("why?", clock.at, address=dm))
    assert await briefs_given(talk) == [LABEL + "3 builds failed" + DOUBT]


async def test_a_thread_under_an_answer_of_ours_in_doubt_stays_in_its_conversation(talk, clock):
    await talk.post(place(), "3 builds failed")
    session = await talk.hear(said("why?", clock.at, mentioned=True))

    def in_doubt(conn):
        delivery = queue(conn, clock.at, place(), "because", kind=DeliveryKind.ANSWER)
        of_it = schema.parts.c.delivery_id == delivery
        conn.execute(schema.parts.update().where(of_it).values(state="in_doubt", intent_at=clock.at))
        values = {"state": "in_doubt", "session_id": session}
        conn.execute(schema.deliveries.update().where(schema.deliveries.c.id == delivery).values(**values))
        return delivery

    delivery = await talk.db.write(in_doubt)
    posted = clock.advance(seconds=1)
    assert await talk.hear(answer(talk, place(root="5.5"), posted)) == session
    assert await state_of(talk, delivery) == "sent"


async def test_a_thread_under_a_brief_that_a_person_called_sent_is_about_it_and_not_about_one_nobody_saw(talk, clock):
    seen = await begun(talk, place(), "seen")
    await talk.db.write(lambda conn: outbox.resolve(conn, seen, "sent", clock.at, settlement=talk.seeder))
    posted = clock.advance(seconds=1)
    clock.advance(seconds=30)
    unseen = await begun(talk, place(), "unseen")
    session = await talk.hear(answer(talk, place(root="1.1"), posted))
    assert await state_of(talk, unseen) == "in_doubt"
    assert (await talk.delivery(seen)).thread_session == session
    assert await briefs_given(talk) == [LABEL + "seen"]
    message = select(schema.receipts.c.message).where(schema.receipts.c.delivery_id == seen)
    assert await talk.db.read(lambda conn: conn.execute(message).scalar_one()) == "1.1"


async def test_an_answer_under_a_known_message_of_ours_is_not_given_a_brief_in_doubt(talk, clock):
    _, [message] = await talk.post(place(), "known")
    unseen = await begun(talk, place(), "unseen")
    await talk.hear(answer(talk, place(root=message), clock.at + timedelta(seconds=1)))
    assert await briefs_given(talk) == [LABEL + "known"]
    assert (await talk.db.read(lambda conn: delivery_row(conn, unseen))).state == "in_doubt"


async def test_a_brief_that_a_person_called_sent_is_in_the_chats_conversation_marked_until_it_is_proven(talk, clock):
    delivery = await begun(talk, place(), "3 builds failed")
    posted = clock.advance(seconds=1)
    for _ in range(2):
        await talk.db.write(lambda conn: settle_as_sent(conn, talk, delivery))
    clock.advance(days=3)
    flat = await talk.hear(said("why?", clock.at, mentioned=True))
    assert await talk.texts(flat) == [LABEL + f"3 builds failed\n{WORD}", "why?"]
    assert [turn.is_unconfirmed for turn in await turns_of(talk, flat)] == [True, False]
    await talk.hear(answer(talk, place(root="1.1"), posted))
    row = await talk.delivery(delivery)
    assert (row.flat_session, row.flat_seeded, row.thread_seeded) == (flat, True, True)
    assert (await talk.texts(flat))[0] == LABEL + "3 builds failed"
    assert not any(turn.is_unconfirmed for turn in await turns_of(talk, flat))
    assert await talk.texts(row.thread_session) == [LABEL + "3 builds failed", "why?"]


def settle_as_sent(conn, talk: Conversation, delivery: str) -> None:
    if delivery_row(conn, delivery).state == "in_doubt":
        outbox.resolve(conn, delivery, "sent", talk.clock.at, settlement=talk.seeder)
    else:
        talk.seeder.settled(conn, Settled(delivery_id=delivery, at=talk.clock.at))


async def turns_of(talk: Conversation, session: str):
    return await talk.db.read(lambda conn: turns(conn, session))
