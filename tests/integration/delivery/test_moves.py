"""A chat that gets a new id is followed, and its old id is not called again."""

import pytest
from sqlalchemy import select

from delivery.chats import current_chat, follow_move
from delivery.model import NotSent, Rejected
from state import schema


@pytest.fixture
async def telegram(house):
    platform = house.scripted("telegram", kind="telegram")
    await house.up()
    await house.start()
    return platform


def called(platform):
    return [one.part.address.chat for one in platform.calls if one.part]


async def test_the_brief_goes_to_the_new_id_at_once_and_what_waits_goes_with_it(house, telegram):
    telegram.sends.append(Rejected(reason="group upgraded", moved_to="-1001"))
    first = await house.deliver("one", "two", account="telegram", chat="-5")
    second = await house.deliver("three", account="telegram", chat="-5")
    await house.settle()
    assert called(telegram) == ["-5", "-1001", "-1001", "-1001"]
    assert telegram.said() == ["one", "one", "two", "three"]
    for delivery in (first, second):
        row = await house.delivery(delivery)
        assert (row.state, row.chat, row.target) == ("sent", "-1001", "telegram:-5")


async def test_a_job_that_still_names_the_old_id_is_sent_to_the_new_one(house, telegram):
    telegram.sends.append(Rejected(reason="group upgraded", moved_to="-1001"))
    await house.deliver("one", account="telegram", chat="-5")
    await house.settle()
    await house.restart()
    await house.up()
    await house.start()
    await house.deliver("next day", account="telegram", chat="-5")
    await house.settle()
    assert called(telegram)[1:] == ["-1001", "-1001"]


async def test_the_settlement_moves_what_hangs_on_the_chat_in_the_same_transaction(house, telegram):
    moves = []
    house.settlement.chat_moved = lambda conn, account, old, new, **_: moves.append((account, old, new))
    telegram.sends.append(Rejected(reason="group upgraded", moved_to="-1001"))
    await house.deliver("one", account="telegram", chat="-5")
    await house.settle()
    assert moves == [("telegram", "-5", "-1001")]


async def test_two_targets_of_one_run_that_turn_out_to_be_one_chat_get_one_brief(house, telegram):
    run = await house.run_of()
    telegram.sends.append(NotSent(reason="connection refused"))
    old = await house.deliver("brief", account="telegram", chat="-5", run_id=run)
    await house.settle()
    new = await house.deliver("brief", account="telegram", chat="-1001", run_id=run)
    await house.settle()
    await house.db.write(lambda conn: follow_move(conn, "telegram", "-5", "-1001", at=house.clock.now()))
    await house.after(5)
    assert called(telegram) == ["-5", "-1001"]
    row = await house.delivery(old)
    assert (row.state, (await house.delivery(new)).state) == ("failed", "sent")
    assert row.error == "the same place as another target: -5 is -1001 now"


async def test_chats_that_point_at_each_other_end(house, telegram):
    for old, new in (("-5", "-6"), ("-6", "-7"), ("-7", "-5")):
        await house.db.write(
            lambda conn, old=old, new=new: follow_move(conn, "telegram", old, new, at=house.clock.now())
        )
    assert await house.db.read(lambda conn: current_chat(conn, "telegram", "-6")) == "-5"
    telegram.sends.extend([Rejected(reason="moved", moved_to="-8"), Rejected(reason="moved", moved_to="-9")] * 10)
    sent = await house.deliver("one", account="telegram", chat="-5")
    await house.settle()
    assert (await house.delivery(sent)).state == "failed"
    assert len(telegram.calls) < 10


async def test_a_move_is_remembered_in_the_chats_table(house, telegram):
    await house.db.write(lambda conn: follow_move(conn, "telegram", "-5", "-1001", at=house.clock.now()))
    rows = await house.db.read(lambda conn: conn.execute(select(schema.chats.c.chat, schema.chats.c.moved_to)).all())
    assert [tuple(row) for row in rows] == [("-5", "-1001")]
