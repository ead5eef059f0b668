"""Wherever a person answers a brief, the session of their message holds it."""

from dataclasses import replace

import pytest
from seedbed import Clock, Conversation, Rules, arrive, place, queue, said
from sqlalchemy import select

from delivery import outbox
from delivery.model import ChatKind, PartKind, Receipt, Surface
from seeding import sessions
from seeding.model import ChatRules, Listen, SessionScope
from state import schema

LABEL = "[Cron delivery: build-health]\n"
DM = place("D1", kind=ChatKind.DM)
QUOTING = ChatRules(has_threads=False, is_delivered_to=True)


def group(**more):
    return place("-100", kind=ChatKind.GROUP, account="telegram", workspace="99", **more)


def tg_dm(**more):
    return place("55", kind=ChatKind.DM, account="telegram", workspace="99", **more)


@pytest.fixture
def rules() -> Rules:
    return Rules(**{"-100": QUOTING, "55": QUOTING, "-200": QUOTING})


async def test_a_plain_answer_in_a_dm_is_in_the_flat_session_that_holds_the_brief(talk: Conversation):
    delivery, _ = await talk.post(DM, "3 builds failed")
    session = await talk.hear(said("why the second?", talk.clock.at, address=DM))
    assert session == (await talk.delivery(delivery)).flat_session
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why the second?"]


async def test_an_answer_in_the_thread_is_in_the_briefs_own_session_after_a_restart_too(talk, db, clock, rules):
    delivery, [message] = await talk.post(place(), "3 builds failed")
    await talk.hear(said("hi", clock.at, address=place(), mentioned=True))
    again = Conversation(db, clock, rules)
    session = await again.hear(said("why?", clock.advance(days=21), address=place(root=message)))
    assert session == (await talk.delivery(delivery)).thread_session
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?"]


@pytest.mark.parametrize("n", [0, 1, 2])
async def test_quoting_any_part_of_a_brief_continues_it(talk: Conversation, n: int):
    delivery, messages = await talk.post(group(), "one", "two", "three")
    session = await talk.hear(said("?", talk.clock.at, address=group(root=messages[n]), answers_us=True))
    assert session == (await talk.delivery(delivery)).thread_session


async def test_a_chain_of_quotes_stays_in_its_conversation(talk: Conversation):
    _, [message] = await talk.post(group(), "3 builds failed")
    first = said("why?", talk.clock.at, address=group(root=message), answers_us=True)
    session = await talk.hear(first)
    await talk.respond()
    answer = await talk.db.read(
        lambda conn: conn.execute(
            select(schema.receipts.c.message).where(schema.receipts.c.delivery_id.like("answer-%"))
        ).scalar_one()
    )
    second = said("and?", talk.clock.at, address=group(root=answer), answers_us=True)
    third = said("me too", talk.clock.at, address=group(root=second.address.message), who="U2", name="Lee")
    assert [await talk.hear(one) for one in (second, third)] == [session, session]
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?", "answer 1", "and?", "me too"]


async def test_plain_text_in_a_topic_opened_for_the_brief_is_an_answer(talk: Conversation):
    def at(**more):
        return place("-200", kind=ChatKind.FORUM, account="telegram", workspace="99", **more)

    def run(conn):
        delivery = queue(conn, talk.clock.at, at(), "text", surface=Surface.THREAD, opening=PartKind.TOPIC)
        arrive(conn, talk.seeder, delivery, 0, at(message="23", topic="23"), at=talk.clock.at)
        arrive(conn, talk.seeder, delivery, 1, at(message="24", topic="23"), at=talk.clock.at)
        return delivery

    delivery = await talk.db.write(run)
    session = await talk.hear(said("why?", talk.clock.at, address=at(topic="23")))
    assert session == (await talk.delivery(delivery)).thread_session


async def test_a_plain_message_in_a_channel_wakes_nothing_and_leaves_no_text(talk: Conversation):
    delivery, _ = await talk.post(place(), "text")
    chatter = said("lunch?", talk.clock.at)
    assert await talk.hear(chatter) is None
    row = await talk.row(chatter)
    assert (row.state, row.payload["text"]) == ("ignored", "")
    assert await talk.texts((await talk.delivery(delivery)).flat_session) == [LABEL + "text"]


async def test_listen_all_wakes_on_a_plain_message(talk: Conversation, rules: Rules):
    rules.default = ChatRules(listen=Listen.ALL, is_delivered_to=True)
    delivery, _ = await talk.post(place(), "text")
    assert await talk.hear(said("why?", talk.clock.at)) == (await talk.delivery(delivery)).flat_session


async def test_a_mention_in_a_foreign_thread_gets_the_briefs_that_nobody_has_talked_about(talk: Conversation):
    await talk.post(place(), "old")
    flat = await talk.hear(said("about old", talk.clock.at, mentioned=True))
    await talk.post(place(), "new")
    asked = said("why did it fail?", talk.clock.at, address=place(root="77.1"), mentioned=True)
    session = await talk.hear(asked)
    assert session != flat
    assert await talk.texts(session) == [LABEL + "new", "why did it fail?"]
    more = said("and?", talk.clock.at, address=place(root="77.1"), mentioned=True)
    assert await talk.hear(more) == session
    assert await talk.hear(said("pizza then", talk.clock.at, address=place(root="77.1"))) is None
    assert await talk.texts(flat) == [LABEL + "old", "about old", LABEL + "new"]


async def test_people_who_talk_under_their_own_message_that_quotes_a_brief_wake_nothing(talk: Conversation):
    delivery, [message] = await talk.post(place(), "text")
    quoting = said("see this", talk.clock.at, quoted=(message,), mentioned=True)
    assert await talk.hear(quoting) == (await talk.delivery(delivery)).thread_session
    below = place(root=quoting.address.message)
    assert await talk.hear(said("pizza then", talk.clock.at, address=below)) is None


async def test_an_answer_in_a_thread_of_people_into_which_a_brief_was_posted_is_heard(talk: Conversation):
    await talk.hear(said("report here, please", talk.clock.at, address=place(root="77.1"), mentioned=True))
    delivery, _ = await talk.post(place(root="77.1"), "text")
    session = await talk.hear(said("why?", talk.clock.at, address=place(root="77.1")))
    assert session == (await talk.delivery(delivery)).thread_session


@pytest.mark.parametrize("text", ["/new@weather_bot", "/cron@weather_bot list", "/weather@weather_bot Rome"])
async def test_a_command_to_another_bot_wakes_nothing_even_where_everything_is_listened_to(talk, rules, text):
    rules.chats["-100"] = ChatRules(has_threads=False, is_delivered_to=True, listen=Listen.ALL)
    await talk.post(group(), "3 builds failed")
    assert await talk.hear(said(text, talk.clock.at, address=group())) is None
    assert (await talk.notices(), talk.talk.words) == ([], [])


async def test_a_new_topic_in_a_dm_begins_with_the_briefs_that_nobody_has_talked_about(talk: Conversation):
    delivery, _ = await talk.post(tg_dm(), "text")
    session = await talk.hear(said("why?", talk.clock.at, address=tg_dm(topic="9")))
    assert session != (await talk.delivery(delivery)).flat_session
    assert await talk.texts(session) == [LABEL + "text", "why?"]


async def test_a_link_to_the_brief_in_the_same_chat_continues_the_brief(talk: Conversation):
    delivery, [message] = await talk.post(place(), "text")
    session = await talk.hear(said("see this", talk.clock.at, quoted=(message,), mentioned=True))
    assert session == (await talk.delivery(delivery)).thread_session


async def test_a_comment_under_a_channel_post_continues_the_brief(talk: Conversation):
    channel = place("-300", account="telegram", workspace="99")
    delivery, [message] = await talk.post(channel, "text")
    discussion = place("-200", kind=ChatKind.GROUP, account="telegram", workspace="99", root="12")
    session = await talk.hear(said("why?", talk.clock.at, address=discussion, copied_root=("-300", message)))
    assert session == (await talk.delivery(delivery)).thread_session


async def test_an_answer_to_a_job_that_does_not_continue_is_an_ordinary_message(talk: Conversation):
    def run(conn):
        delivery = queue(conn, talk.clock.at, group(), "secret list", continues=False)
        arrive(conn, talk.seeder, delivery, 1, group(message="1.1"), at=talk.clock.at)

    await talk.db.write(run)
    session = await talk.hear(said("why?", talk.clock.at, address=group(root="1.1"), answers_us=True))
    assert await talk.texts(session) == ["why?"]


# --- late binding ---------------------------------------------------------------------------------------


async def test_a_brief_whose_keys_are_gone_is_bound_when_it_is_answered(talk: Conversation):
    delivery, [message] = await talk.post(group(), "3 builds failed")
    row = await talk.delivery(delivery)
    await talk.db.write(lambda conn: sessions.forget(conn, row.thread_session))
    session = await talk.hear(said("why?", talk.clock.at, address=group(root=message), answers_us=True))
    assert session != row.flat_session
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?"]
    assert (await talk.delivery(delivery)).thread_session == session


async def test_an_answer_under_a_header_whose_brief_is_still_to_come_gets_it_when_it_comes(talk, clock):
    def opening(conn):
        delivery = queue(conn, clock.at, place(), "text", surface=Surface.THREAD, opening=PartKind.HEADER)
        arrive(conn, talk.seeder, delivery, 0, place(message="7.0"), at=clock.at)
        return delivery

    delivery = await talk.db.write(opening)
    session = await talk.hear(said("what is this?", clock.at, address=place(root="7.0")))
    assert clock.monotonic() >= 5  # it waited for the brief, and no longer
    await talk.db.write(
        lambda conn: arrive(conn, talk.seeder, delivery, 1, place(message="7.1", root="7.0"), at=clock.at)
    )
    assert (await talk.delivery(delivery)).thread_session == session
    assert await talk.texts(session) == ["what is this?", LABEL + "text"]


async def test_where_each_person_has_a_session_the_briefs_are_there_when_they_first_speak(talk, rules, clock):
    rules.default = ChatRules(sessions=SessionScope.PER_USER, is_delivered_to=True)
    await talk.post(place(), "first")
    clock.advance(minutes=1)
    kim = await talk.hear(said("kim here", clock.at, mentioned=True))
    clock.advance(minutes=1)
    await talk.post(place(), "second")
    clock.advance(minutes=1)
    lee = await talk.hear(said("lee here", clock.at, mentioned=True, who="U2", name="Lee"))
    assert await talk.hear(said("kim again", clock.at, mentioned=True)) == kim
    assert await talk.texts(kim) == [LABEL + "first", "kim here", LABEL + "second", "kim again"]
    assert await talk.texts(lee) == [LABEL + "first", LABEL + "second", "lee here"]


async def test_the_answer_to_a_part_in_doubt_is_its_receipt(talk: Conversation, clock: Clock):
    def doubtful(conn):
        delivery = queue(conn, clock.at, group(), "3 builds failed")
        conn.execute(schema.parts.update().values(state="in_doubt", told_at=clock.at, intent_at=clock.at))
        return delivery

    delivery = await talk.db.write(doubtful)
    posted = clock.at
    asked = said("why?", clock.advance(hours=1), address=group(root="31"), answers_us=True, answered_at=posted)
    session = await talk.hear(asked)
    row = await talk.delivery(delivery)
    assert (row.state, row.thread_session, row.flat_seeded) == ("sent", session, True)
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?"]


async def test_an_answer_waits_for_a_brief_that_is_being_sent_to_the_same_chat(talk: Conversation, clock: Clock):
    def in_flight(conn):
        delivery = queue(conn, clock.at, DM, "3 builds failed")
        conn.execute(schema.parts.update().values(state="sending", intent_at=clock.at))
        conn.execute(schema.deliveries.update().values(state="sending"))
        return delivery

    delivery = await talk.db.write(in_flight)
    waits = clock.sleep
    rounds = 0

    async def arrives_meanwhile(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            await talk.db.write(
                lambda conn: arrive(
                    conn, talk.seeder, delivery, 1, place("D1", kind=ChatKind.DM, message="1.1"), at=clock.at
                )
            )
        await waits(seconds)

    talk.router._sleep = arrives_meanwhile
    session = await talk.hear(said("why?", clock.at, address=DM))
    assert rounds == 3
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?"]


# --- /new -----------------------------------------------------------------------------------------------


async def test_new_starts_the_flat_session_over_with_what_nobody_has_talked_about(talk: Conversation):
    await talk.post(DM, "old")
    before = await talk.hear(said("about old", talk.clock.at, address=DM))
    await talk.respond()
    fresh, [message] = await talk.post(DM, "22:01")
    also, _ = await talk.post(DM, "06:00", job="nightly")
    assert await talk.hear(said("/new", talk.clock.at, address=DM)) is None
    session = await talk.hear(said("why?", talk.clock.at, address=DM))
    assert session != before
    assert await talk.texts(session) == [LABEL + "22:01", "[Cron delivery: nightly]\n06:00", "why?"]
    assert {(await talk.delivery(one)).flat_session for one in (fresh, also)} == {session}
    assert await talk.notices() == [
        "A new conversation starts here. It keeps what you have not talked about yet: build-health, nightly."
    ]
    in_thread = await talk.hear(said("and?", talk.clock.at, address=replace(DM, root=message)))
    assert in_thread == (await talk.delivery(fresh)).thread_session
    assert (await talk.delivery(fresh)).thread_session != session


async def test_new_twice_keeps_the_briefs_for_it_is_no_word_about_them(talk: Conversation):
    await talk.post(DM, "text")
    for _ in range(2):
        await talk.hear(said("!new", talk.clock.at, address=DM))
    assert await talk.texts(await talk.hear(said("why?", talk.clock.at, address=DM))) == [LABEL + "text", "why?"]


async def test_new_in_the_briefs_own_thread_says_so_and_changes_nothing(talk: Conversation):
    delivery, [message] = await talk.post(place(), "text")
    row = await talk.delivery(delivery)
    await talk.hear(said("/new", talk.clock.at, address=place(root=message)))
    [words] = await talk.notices()
    assert words.startswith("This thread belongs to the brief of build-health")
    assert await talk.hear(said("?", talk.clock.at, address=place(root=message))) == row.thread_session
    assert await talk.hear(said("?", talk.clock.at, mentioned=True)) == row.flat_session


async def test_a_silent_chat_starts_over_by_itself_only_if_a_rule_says_so(talk: Conversation, rules: Rules):
    await talk.post(DM, "old")
    first = await talk.hear(said("about old", talk.clock.at, address=DM))
    await talk.post(DM, "new")
    talk.clock.advance(days=30)
    assert await talk.hear(said("why?", talk.clock.at, address=DM)) == first

    from datetime import timedelta

    rules.default = ChatRules(is_delivered_to=True, expire_after=timedelta(hours=5))
    await talk.post(DM, "newest")
    talk.clock.advance(hours=6)
    session = await talk.hear(said("and now?", talk.clock.at, address=DM))
    assert session != first
    assert await talk.texts(session) == [LABEL + "newest", "and now?"]


# --- /cron ----------------------------------------------------------------------------------------------


async def test_commands_are_for_the_listed_only_and_are_no_turns(talk: Conversation, rules: Rules):
    rules.default = ChatRules(allow=frozenset({"U1", "U2"}), is_delivered_to=True)
    await talk.hear(said("/cron pause build-health", talk.clock.at))
    await talk.hear(said("cron list", talk.clock.at, mentioned=True))
    rules.default = ChatRules(everyone=True, is_delivered_to=True)
    await talk.hear(said("!cron run build-health", talk.clock.at))
    assert talk.talk.words == ["pause build-health", "list"]
    assert await talk.notices() == [
        "did pause build-health",
        "did list",
        "Only people listed under `allow` of this account may do that.",
    ]
    assert await talk.db.read(lambda conn: conn.execute(select(schema.turns)).all()) == []


# --- seeds that are still owed when somebody answers ------------------------------------------------------


class Crashing:
    """A settlement in which the program dies."""

    def settled(self, conn, settled):
        raise RuntimeError("killed here")


async def owed(talk: Conversation, where, message: str) -> str:
    """Let a brief arrive whose seed is still owed."""

    def run(conn):
        delivery = queue(conn, talk.clock.at, where, "3 builds failed")
        receipt = Receipt(address=replace(where, message=message), at=talk.clock.at)
        outbox.confirm_part(conn, delivery, 1, receipt, at=talk.clock.at, settlement=Crashing())
        return delivery

    return await talk.db.write(run)


async def test_a_brief_whose_seed_is_owed_is_seeded_before_the_answer_is_routed(talk: Conversation):
    delivery = await owed(talk, DM, "1.1")
    session = await talk.hear(said("why?", talk.clock.at, address=DM))
    assert await talk.texts(session) == [LABEL + "3 builds failed", "why?"]
    row = await talk.delivery(delivery)
    assert (row.flat_session, row.flat_seeded, row.thread_seeded) == (session, True, True)


async def test_so_is_the_channel_post_under_which_somebody_comments(talk: Conversation):
    channel = place("-300", account="telegram", workspace="99")
    delivery = await owed(talk, channel, "41")
    discussion = place("-200", kind=ChatKind.GROUP, account="telegram", workspace="99", root="12")
    session = await talk.hear(said("why?", talk.clock.at, address=discussion, copied_root=("-300", "41")))
    row = await talk.delivery(delivery)
    assert (row.thread_session, row.flat_seeded, row.thread_seeded) == (session, True, True)
