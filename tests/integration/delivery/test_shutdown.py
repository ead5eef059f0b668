"""Stopping, and results that cannot be stored."""

import asyncio
import logging

import pytest
from sqlalchemy import Connection

from delivery.model import Sent
from state.errors import DiskFullError, StateUnknown


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    await house.up()
    await house.start()
    return platform


def answering(platform, gate):
    async def send(part):
        await gate.wait()
        return Sent(receipt=platform.receipt(part))

    return send


async def test_what_is_being_sent_is_finished_and_nothing_new_is_started(house, slack):
    gate = asyncio.Event()
    slack.sends.append(answering(slack, gate))
    sent = await house.deliver("one", "two")
    await house.settle()
    stopping = asyncio.create_task(house.dispatcher.stop())
    await house.settle()
    gate.set()
    await house.settle()
    await stopping
    assert slack.said() == ["one"]
    assert await house.part_states(sent) == ["sent", "pending"]


async def test_what_takes_longer_than_the_deadline_is_cut_off_and_in_doubt(house, slack):
    slack.sends.append(answering(slack, asyncio.Event()))
    sent = await house.deliver("one")
    await house.settle()
    stopping = asyncio.create_task(house.dispatcher.stop(20))
    await house.after(19)
    assert not stopping.done()
    await house.after(2)
    await stopping
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("in_doubt", "interrupted while it was under way")


async def test_cancelling_the_dispatcher_finishes_what_is_being_sent(house, slack):
    gate = asyncio.Event()
    slack.sends.append(answering(slack, gate))
    sent = await house.deliver("one")
    await house.settle()
    house._task.cancel()
    await house.settle_only()
    gate.set()
    await house.settle_only()
    assert (await house.delivery(sent)).state == "sent"
    assert house._task.cancelled()
    house._task = None


async def test_stopping_a_dispatcher_that_never_ran_returns_at_once(house):
    await house.dispatcher.stop()


async def test_an_intent_that_was_stored_as_the_stop_came_is_taken_back(house, slack):
    real = house.db.write

    async def stops_after(fn):
        done = await real(fn)
        if type(done).__name__ == "Send":
            house.dispatcher._stopping.set()
        return done

    house.db.write = stops_after
    sent = await house.deliver("one")
    await house.settle()
    del house.db.write
    assert slack.calls == []
    assert await house.part_states(sent) == ["pending"]


class FullDisk:
    """Fails the writes that record a result, some times."""

    def __init__(self, house, error, times=10**6):
        self.real = house.db.write
        self.house, self.error, self.times = house, error, times
        house.db.write = self.write

    async def write(self, fn):
        if "_store" in fn.__qualname__ and self.times > 0:
            self.times -= 1
            raise self.error
        return await self.real(fn)


async def test_a_receipt_that_cannot_be_stored_is_logged_whole_kept_and_stored_later(house, slack, caplog):
    FullDisk(house, DiskFullError(house.path), times=3)
    with caplog.at_level(logging.ERROR):
        sent = await house.deliver("the text", "two")
        await house.settle()
        assert await house.part_states(sent) == ["sending", "pending"]
        await house.after(8)
    (record, *_) = [one for one in caplog.records if getattr(one, "action", "") == "receipt_not_stored"]
    assert (record.delivery, record.part, record.workspace, record.chat, record.message_id) == (
        sent,
        1,
        "T1",
        "C1",
        "1",
    )
    assert "the text" not in str(record.__dict__)
    assert await house.message_ids(sent) == ["1", "2"]
    assert slack.said() == ["the text", "two"]


async def test_without_a_stored_intent_there_is_no_call(house, slack):
    real = house.db.write

    async def full(fn):
        if "_step" in fn.__qualname__:
            raise DiskFullError(house.path)
        return await real(fn)

    house.db.write = full
    sent = await house.deliver("one")
    await house.after(7)
    assert slack.calls == []
    del house.db.write
    await house.after(10)
    assert (await house.delivery(sent)).state == "sent"


async def test_when_it_is_unknown_what_was_stored_no_platform_is_called_any_more(house, slack):
    FullDisk(house, StateUnknown(house.path, "disk I/O error"))
    await house.deliver("one", "two")
    await house.deliver("three", chat="C2")
    with pytest.raises(StateUnknown):
        await house.settle()
        await house.after(3600)
    assert sorted(slack.said()) in (["one"], ["one", "three"])
    house._task = None


async def test_a_settlement_sees_its_receipt_in_the_same_transaction(house, slack):
    seen = []
    real = house.settlement.settled

    def settled(conn: Connection, what):
        real(conn, what)
        seen.append(conn.in_nested_transaction())

    house.settlement.settled = settled
    await house.deliver("one")
    await house.settle()
    assert seen == [True]
