"""A send that may have arrived: never sent again by itself, asked about, held for a person."""

import asyncio
import logging

import pytest

from delivery.model import Absent, CannotTell, InDoubt, Sent
from delivery.outbox import confirm_part, in_doubt_parts

DOUBT = InDoubt(reason="the answer did not come in time")


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.up()
    await house.start()
    return platform


def offsets(platform, verb):
    start = platform.calls[0].at
    return [(one.at - start).total_seconds() for one in platform.calls if one.verb == verb]


async def test_a_message_that_had_arrived_is_found_and_not_sent_again(house, slack):
    slack.sends.append(DOUBT)
    sent = await house.deliver("one")
    await house.settle()
    slack.finds.append(slack.receipt(slack.calls[0].part, "555"))
    assert (await house.delivery(sent)).state == "in_doubt"
    await house.after(100)
    assert (slack.said(), await house.message_ids(sent)) == (["one"], ["555"])
    assert (await house.delivery(sent)).state == "sent"
    assert await house.seed(sent) == "1=555"


async def test_only_two_absences_thirty_seconds_apart_make_it_be_sent_again(house, slack):
    slack.sends.append(DOUBT)
    sent = await house.deliver("one")
    await house.after(34)
    assert offsets(slack, "find") == []
    await house.after(30)
    assert (offsets(slack, "find"), offsets(slack, "send")) == ([35], [0])
    await house.after(1)
    assert (offsets(slack, "find"), offsets(slack, "send")) == ([35, 65], [0, 65])
    assert (await house.delivery(sent)).state == "sent"


async def test_a_slow_request_is_asked_about_only_after_its_own_timeout(house):
    slack = house.scripted(request_timeout=60.0)
    await house.up()
    await house.start()
    slack.sends.append(DOUBT)
    await house.deliver("one")
    await house.after(200)
    assert offsets(slack, "find") == [65, 95]


async def test_what_cannot_be_told_is_held_for_a_person_and_never_sent_again(house, slack, caplog):
    slack.sends.append(DOUBT)
    slack.finds.extend([CannotTell(reason="the scope channels:history is missing")] * 50)
    with caplog.at_level(logging.WARNING):
        sent = await house.deliver("one")
        await house.hours(48)
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("in_doubt", "the scope channels:history is missing")
    assert slack.said() == ["one"]
    assert len(offsets(slack, "find")) < 15
    assert "part_held_for_a_person" in {getattr(record, "action", "") for record in caplog.records}


async def test_a_platform_that_could_not_tell_at_first_may_find_it_later(house, slack):
    slack.sends.append(DOUBT)
    sent = await house.deliver("one")
    await house.settle()
    slack.finds.extend([CannotTell(reason="no connection"), slack.receipt(slack.calls[0].part, "7")])
    await house.after(35)
    assert (await house.delivery(sent)).state == "in_doubt"
    await house.after(100)
    assert (await house.delivery(sent)).state == "sent"


async def test_the_parts_after_one_in_doubt_wait_until_it_is_clear_where_it_went(house, slack):
    slack.sends.append(DOUBT)
    await house.deliver("one", "two")
    await house.after(30)
    assert slack.said() == ["one"]
    slack.finds.append(slack.receipt(slack.calls[0].part))
    await house.after(10)
    assert slack.said() == ["one", "two"]


async def test_a_part_nobody_can_tell_about_does_not_keep_the_rest_of_the_brief_back(house, slack):
    slack.sends.append(DOUBT)
    slack.finds.extend([CannotTell(reason="Telegram cannot be asked")] * 50)
    sent = await house.deliver("one", "two")
    await house.after(60)
    assert slack.said() == ["one", "two"]
    assert (await house.delivery(sent)).state == "in_doubt"
    assert await house.seed(sent) == "2=1"


async def test_other_briefs_to_the_chat_do_not_wait_for_one_in_doubt(house, slack):
    slack.sends.append(DOUBT)
    await house.deliver("one")
    await house.settle()
    await house.deliver("another")
    await house.settle()
    assert slack.said() == ["one", "another"]


async def test_a_persons_answer_under_a_part_in_doubt_proves_it(house, slack):
    slack.sends.append(DOUBT)
    sent = await house.deliver("one")
    await house.settle()
    part = slack.calls[0].part
    (doubtful,) = await house.db.read(lambda conn: in_doubt_parts(conn, part.address))
    assert (doubtful.delivery_id, doubtful.n, doubtful.text) == (sent, 1, "one")
    proof = slack.receipt(part, "88")
    for _ in range(2):
        await house.db.write(
            lambda conn: confirm_part(conn, sent, 1, proof, at=house.clock.now(), settlement=house.settlement)
        )
    await house.after(200)
    assert (slack.verbs(), await house.message_ids(sent)) == (["send"], ["88"])
    assert await house.seed(sent) == "1=88"


async def test_a_call_that_breaks_may_have_arrived(house, slack):
    slack.sends.append(RuntimeError("a bug in the SDK"))
    sent = await house.deliver("one")
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("in_doubt", "the call broke: RuntimeError")


async def test_a_receipt_that_comes_after_a_person_proved_the_part_changes_nothing(house, slack):
    answers: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def slow(part):
        await answers
        return Sent(receipt=slack.receipt(part, "2"))

    slack.sends.append(slow)
    sent = await house.deliver("one")
    await house.settle()
    proof = slack.receipt(slack.calls[0].part, "1")
    await house.db.write(
        lambda conn: confirm_part(conn, sent, 1, proof, at=house.clock.now(), settlement=house.settlement)
    )
    answers.set_result(None)
    await house.settle()
    assert await house.message_ids(sent) == ["1"]


async def test_absent_and_then_found_is_found(house, slack):
    slack.sends.append(DOUBT)
    sent = await house.deliver("one")
    await house.settle()
    slack.finds.extend([Absent(), slack.receipt(slack.calls[0].part, "4")])
    await house.after(100)
    assert (slack.said(), await house.message_ids(sent)) == (["one"], ["4"])
