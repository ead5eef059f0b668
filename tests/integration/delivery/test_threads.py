"""The thread surface: opened first, used again, and never a reason for a brief not to arrive."""

from dataclasses import replace

import pytest

from delivery.model import CannotTell, InDoubt, PartKind, Rejected, Sent, Surface
from delivery.outbox import resend
from delivery.ports import Opening

DOUBT = InDoubt(reason="timeout")


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.up()
    await house.start()
    return platform


def arriving(platform):
    async def arrives(part):
        return Sent(receipt=platform.receipt(part))

    return arrives


async def test_the_header_comes_first_and_the_brief_goes_under_it(house, slack):
    sent = await house.deliver("one", "two", in_thread=True)
    await house.settle()
    assert slack.said() == ["build-health", "one", "two"]
    assert [one.part.address.root for one in slack.calls] == [None, "1", "1"]
    row = await house.delivery(sent)
    assert (row.state, row.root, row.thread) == ("sent", "1", "1")
    assert await house.seed(sent) == "0=1,1=2,2=3"


async def test_a_topic_is_opened_for_the_run_and_the_brief_goes_into_it(house):
    telegram = house.scripted("telegram", kind="telegram")
    await house.up()
    await house.start()
    topic = Opening(kind=PartKind.TOPIC, payload={"text": "build-health"}, text="build-health")
    sent = await house.deliver("one", account="telegram", chat="-100", opening=topic, surface=Surface.THREAD)
    await house.settle()
    place = telegram.calls[1].part.address
    assert (place.topic, place.root) == ("1", None)
    assert (await house.delivery(sent)).root == "1"


async def test_if_the_brief_then_fails_nothing_is_seeded_and_a_resend_uses_the_half_open_thread(house, slack):
    slack.sends.extend([arriving(slack), Rejected(reason="too long")])
    sent = await house.deliver("one", in_thread=True)
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.root, await house.seed(sent)) == ("failed", "1", None)
    await house.db.write(lambda conn: resend(conn, row.run_id, None, house.clock.now()))
    house.dispatcher.wake()
    await house.settle()
    assert slack.said() == ["build-health", "one", "one"]
    assert slack.calls[2].part.address.root == "1"
    assert (await house.delivery(sent)).state == "sent"
    assert await house.seed(sent) == "0=1,1=2"


async def test_a_thread_that_cannot_be_opened_does_not_cost_the_brief(house, slack):
    slack.sends.append(Rejected(reason="not enough rights to create a topic"))
    sent = await house.deliver("one", in_thread=True)
    await house.settle()
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("degraded", "posted flat: not enough rights to create a topic")
    assert slack.calls[1].part.address.root is None


async def test_a_header_in_doubt_that_is_found_carries_the_brief(house, slack):
    slack.sends.append(DOUBT)
    sent = await house.deliver("one", in_thread=True)
    await house.settle()
    slack.finds.append(slack.receipt(slack.calls[0].part, "10.1"))
    await house.after(40)
    assert slack.calls[-1].part.address.root == "10.1"
    assert (await house.delivery(sent)).state == "sent"


async def test_a_topic_nobody_can_tell_about_is_opened_once_more_and_the_brief_is_degraded(house, slack):
    slack.sends.append(DOUBT)
    slack.finds.append(CannotTell(reason="no update came"))
    sent = await house.deliver("one", in_thread=True)
    await house.after(40)
    assert slack.said() == ["build-health", "build-health", "one"]
    row = await house.delivery(sent)
    assert row.state == "degraded"
    assert row.error == "the thread was opened a second time, since the first may stand empty"


async def test_it_is_not_opened_a_third_time_and_the_brief_arrives_flat(house, slack):
    slack.sends.extend([DOUBT, DOUBT])
    slack.finds.extend([CannotTell(reason="no")] * 30)
    sent = await house.deliver("one", in_thread=True)
    await house.after(100)
    assert slack.said() == ["build-health", "build-health", "one"]
    assert slack.calls[-1].part.address.root is None
    assert (await house.delivery(sent)).state == "degraded"
    assert await house.seed(sent) == "1=1"


async def test_a_target_that_is_a_thread_gets_no_header(house, slack):
    new = await house.brief("one", in_thread=True)
    sent = await house.deliver(
        "one", opening=new.opening, surface=Surface.THREAD, address=replace(new.address, root="50.1")
    )
    await house.settle()
    assert slack.said() == ["one"]
    assert slack.calls[0].part.address.root == "50.1"
    row = await house.delivery(sent)
    assert (row.root, row.flat_seeded, row.thread_seeded) == (None, None, False)


async def test_where_there_are_no_threads_the_brief_is_posted_flat_and_nothing_is_wrong(house, slack):
    sent = await house.deliver("one", surface=Surface.THREAD, opening=None)
    await house.settle()
    assert (await house.delivery(sent)).state == "sent"
