"""The ways in which one send may end, and what a user sees of each."""

import logging
from dataclasses import replace

import pytest
from sqlalchemy import insert

from delivery.chats import chat_is_back
from delivery.model import DeliveryKind, NotSent, Rejected, Sent
from delivery.outbox import enqueue
from delivery.ports import SettlementFailed
from state import schema


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.up()
    await house.start()
    return platform


async def test_a_brief_is_sent_only_with_the_platforms_own_message_id(house, slack):
    sent = await house.deliver("one", "two")
    await house.settle()
    assert slack.said() == ["one", "two"]
    assert await house.message_ids(sent) == ["1", "2"]
    assert (await house.delivery(sent)).state == "sent"
    assert await house.seed(sent) == "1=1,2=2"


@pytest.mark.parametrize("message", ["", "0"])
async def test_an_answer_without_a_message_id_is_not_called_delivered(house, slack, message):
    async def accepted(part):
        return Sent(receipt=slack.receipt(part, message))

    slack.sends.append(accepted)
    sent = await house.deliver("one")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("in_doubt", "the platform gave no message id")
    assert await house.message_ids(sent) == []
    assert await house.seed(sent) is None


async def test_the_intent_is_stored_before_the_platform_is_called(house, slack):
    seen = []

    async def look(part):
        seen.append((await house.part_states(part.delivery_id), part.intent_at))
        return Sent(receipt=slack.receipt(part))

    slack.sends.append(look)
    await house.deliver("one", "two")
    await house.settle()
    assert seen == [(["sending", "pending"], house.clock.now())]


async def test_a_refused_part_leaves_the_brief_degraded_and_the_rest_arrives(house, slack):
    async def arrives(part):
        return Sent(receipt=slack.receipt(part))

    slack.sends.extend([arrives, Rejected(reason="the message is too long")])
    sent = await house.deliver("one", "two", "three")
    await house.settle()
    row = await house.delivery(sent)
    assert await house.part_states(sent) == ["sent", "rejected", "sent"]
    assert (row.state, row.error) == ("degraded", "part 2 of 3 was refused: the message is too long")
    assert await house.seed(sent) == "1=1,3=2"


async def test_a_brief_of_which_nothing_arrived_failed_with_the_reason_and_owes_no_seed(house, slack):
    slack.sends.append(Rejected(reason="no permission to post there"))
    sent = await house.deliver("one")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("failed", "no permission to post there")
    assert (row.flat_seeded, row.thread_seeded) == (None, None)
    assert await house.seed(sent) is None
    assert [(one.state, one.error) for one in house.told] == [("failed", "no permission to post there")]


async def test_one_reader_who_blocked_the_bot_costs_the_others_nothing(house, slack):
    async def refuses(part):
        gone = part.address.chat == "2"
        return (
            Rejected(reason="the bot was blocked by the user", chat_is_gone=True)
            if gone
            else Sent(receipt=slack.receipt(part))
        )

    slack.sends.extend([refuses] * 5)
    sent = [await house.deliver("news", chat=str(n)) for n in range(1, 6)]
    await house.settle()
    assert [(await house.delivery(one)).state for one in sent] == ["sent", "failed", "sent", "sent", "sent"]


async def test_a_chat_that_is_gone_is_not_called_again_until_somebody_writes_there(house, slack):
    slack.sends.append(Rejected(reason="the bot was blocked by the user", chat_is_gone=True))
    first = await house.deliver("one", "two")
    await house.settle()
    second = await house.deliver("three")
    await house.settle()
    assert slack.said() == ["one"]
    assert [(await house.delivery(one)).error for one in (first, second)] == ["the bot was blocked by the user"] * 2
    await house.db.write(lambda conn: chat_is_back(conn, "slack", "C1"))
    third = await house.deliver("four")
    await house.settle()
    assert (await house.delivery(third)).state == "sent"


async def test_what_surely_was_not_sent_is_tried_again_after_growing_waits(house, slack):
    slack.sends.extend([NotSent(reason="connection refused")] * 3)
    sent = await house.deliver("one")
    await house.settle()
    assert (await house.delivery(sent)).error == "connection refused"
    await house.after(10)
    assert [(one.at - slack.calls[0].at).total_seconds() for one in slack.calls] == [0, 1, 3, 7]
    assert (await house.delivery(sent)).state == "sent"


async def test_a_delivery_that_cannot_be_sent_for_a_minute_is_held_so_that_its_run_can_close(house, slack):
    slack.sends.extend([NotSent(reason="connection refused")] * 8)
    sent = await house.deliver("one")
    await house.after(70)
    assert (await house.delivery(sent)).state == "held"
    assert house.told[-1].state == "held"
    await house.after(200)
    assert (await house.delivery(sent)).state == "sent"


async def test_a_chat_keeps_its_order_while_its_first_brief_waits_for_a_retry(house, slack):
    slack.sends.append(NotSent(reason="connection refused"))
    await house.deliver("one")
    await house.deliver("two")
    await house.deliver("elsewhere", chat="C2")
    await house.after(2)
    assert slack.said() == ["one", "elsewhere", "one", "two"]


async def test_one_run_has_one_delivery_for_a_place_however_often_it_is_asked_for(house, slack):
    new = await house.brief("Hello")
    other = replace(new, id="other", target="slack:#ops-by-another-name")
    at = house.clock.now()
    stored = await house.db.write(lambda conn: enqueue(conn, [new, other], at=at))
    again = await house.db.write(lambda conn: enqueue(conn, [replace(new, id="third")], at=at))
    house.dispatcher.wake()
    await house.settle()
    assert (stored, again, slack.said()) == ((new.id,), (), ["Hello"])


async def test_one_question_has_one_answer(house, slack):
    def hear(conn):
        at = house.clock.now()
        return conn.execute(
            insert(schema.inbound).values(
                account="slack",
                workspace="T1",
                chat="C1",
                message="9",
                payload={},
                fingerprint="",
                mentioned=False,
                state="stored",
                at=at,
                received_at=at,
                updated_at=at,
            )
        ).inserted_primary_key[0]

    inbound_id = await house.db.write(hear)
    for text in ("an answer", "another"):
        new = await house.brief(text, kind=DeliveryKind.ANSWER, inbound_id=inbound_id)
        new = replace(new, run_id=None)
        await house.db.write(lambda conn, new=new: enqueue(conn, [new], at=house.clock.now()))
    house.dispatcher.wake()
    await house.settle()
    assert slack.said() == ["an answer"]


async def test_a_seed_that_fails_is_a_warning_and_the_delivery_stands(house, slack, caplog):
    house.settlement.fails.append(SettlementFailed("no such session", surface="flat", session="s-17"))
    with caplog.at_level(logging.WARNING):
        sent = await house.deliver("one")
        await house.settle()
    (record,) = [record for record in caplog.records if getattr(record, "action", "") == "seed_failed"]
    assert (record.delivery, record.surface, record.session, record.job) == (
        sent,
        "flat",
        "s-17",
        "build-health",
    )
    assert (await house.delivery(sent)).state == "sent"
    assert await house.message_ids(sent) == ["1"]
    assert await house.seed(sent) is None


async def test_a_seeds_bug_costs_neither_the_receipt_nor_the_next_brief(house, slack):
    house.settlement.fails.append(RuntimeError("a bug"))
    first, second = await house.deliver("one"), await house.deliver("two")
    await house.settle()
    assert [(await house.delivery(one)).state for one in (first, second)] == ["sent", "sent"]
    assert (await house.seed(first), await house.seed(second)) == (None, "1=2")


async def test_an_unknown_target_fails_at_birth_and_says_so(house, slack):
    sent = await house.deliver("one", address=None, error="there is no channel #opps on slack")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("failed", "there is no channel #opps on slack")
    assert slack.said() == []


async def test_a_post_without_a_thread_never_inherits_one_from_the_post_before(house, slack):
    await house.deliver("in a thread", address=replace((await house.brief()).address, root="50.0001"))
    await house.deliver("in the channel")
    await house.settle()
    assert [one.part.address.root for one in slack.calls] == ["50.0001", None]


async def test_the_request_carries_the_topic_that_the_target_names(house, slack):
    await house.deliver("nightly", address=replace((await house.brief()).address, topic="5"))
    await house.settle()
    assert slack.calls[0].part.address.topic == "5"


async def test_neither_the_log_nor_what_is_told_shows_the_text(house, slack, caplog):
    slack.sends.append(Rejected(reason="refused"))
    with caplog.at_level(logging.DEBUG):
        await house.deliver("the-secret-brief")
        await house.deliver("the-secret-brief")
        await house.settle()
    shown = " ".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "the-secret-brief" not in shown
    assert "delivery_sent" in shown


async def test_a_listeners_bug_does_not_stop_the_queue(house, slack):
    class Broken(list):
        def append(self, item):
            raise RuntimeError("nobody home")

    house.dispatcher._teller._on_settled = Broken().append
    await house.deliver("one")
    await house.deliver("two")
    await house.settle()
    assert slack.said() == ["one", "two"]
