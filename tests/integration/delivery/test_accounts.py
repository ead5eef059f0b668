"""Accounts come and go; one that is down costs nobody else anything."""

import asyncio
from datetime import timedelta

from sqlalchemy import select

from delivery.accounts import AccountKeeper
from delivery.chats import stored_workspaces
from delivery.model import Author, Inbound, NotSent
from delivery.ports import AccountDown
from state import schema


async def keep(house, **more) -> AccountKeeper:
    keeper = house.keeper(**more)
    await keeper.prepare()
    house.keeping = asyncio.create_task(keeper.run())
    await house.start()
    return keeper


async def account(house, name):
    query = select(schema.accounts).where(schema.accounts.c.name == name)
    return await house.db.read(lambda conn: conn.execute(query).one())


async def test_a_bad_token_marks_its_account_down_and_everybody_elses_briefs_arrive_on_time(house):
    slack, telegram = house.scripted(), house.scripted("telegram", kind="telegram")
    slack.refusals.extend(["invalid_auth: check bot_token"] * 100)
    await keep(house)
    waiting = await house.deliver("for slack")
    sent = await house.deliver("for telegram", account="telegram", chat="7")
    local = await house.deliver("local", account="local", address=(await house.local.resolve(_general())))
    await house.settle()
    row = await account(house, "slack")
    assert (row.state, row.reason) == ("down", "invalid_auth: check bot_token")
    assert (await account(house, "telegram")).state == "up"
    assert [(await house.delivery(one)).state for one in (waiting, sent, local)] == ["held", "sent", "sent"]
    assert telegram.said() == ["for telegram"]


def _general():
    from delivery.targets import parse_target

    return parse_target("local", {})


async def test_a_down_account_is_tried_again_after_1_second_up_to_5_minutes(house):
    slack = house.scripted()
    slack.refusals.extend(["invalid_auth"] * 100)
    await keep(house)
    await house.after(1500)
    start = slack.calls[0].at
    tried = [(one.at - start).total_seconds() for one in slack.calls if one.verb == "connect"]
    assert tried[:10] == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]
    assert tried[10:13] == [811, 1111, 1411]


async def test_waits_are_spread_by_the_jitter_that_is_given(house):
    slack = house.scripted()
    slack.refusals.extend(["invalid_auth"] * 3)
    keeper = AccountKeeper(
        db=house.db,
        platforms={"slack": slack},
        hear=_deaf,
        now=house.clock.now,
        sleep=house.clock.sleep,
        monotonic=house.clock.monotonic,
        changed=lambda name: None,
        jitter=lambda wait: wait * 1.5,
    )
    task = asyncio.create_task(keeper.run())
    await house.after(5)
    task.cancel()
    assert [(one.at - slack.calls[0].at) for one in slack.calls] == [
        timedelta(),
        timedelta(seconds=1.5),
        timedelta(seconds=4.5),
    ]


async def _deaf(inbound):
    raise AssertionError("nothing was said")


async def test_a_token_that_is_put_right_sends_what_was_held(house):
    slack = house.scripted()
    slack.refusals.extend(["invalid_auth"] * 5)
    await keep(house)
    sent = await house.deliver("one")
    await house.after(30)
    assert (await house.delivery(sent)).state == "held"
    await house.after(2)
    assert (await house.delivery(sent)).state == "sent"
    assert [one.state for one in house.told] == ["held", "sent"]


async def test_a_login_that_is_refused_while_sending_takes_the_account_down_and_loses_nothing(house):
    slack = house.scripted()
    keeper = await keep(house)
    house.dispatcher._sender._refused = keeper.doubt
    slack.sends.append(NotSent(reason="token_revoked", account_is_down=True))
    slack.refusals.extend(["token_revoked"] * 2)
    sent = await house.deliver("one", "two")
    await house.settle()
    assert (await account(house, "slack")).reason == "token_revoked"
    assert await house.part_states(sent) == ["held", "held"]
    await house.after(10)
    assert (slack.said(), (await house.delivery(sent)).state) == (["one", "one", "two"], "sent")


async def test_an_account_that_cannot_hear_says_so_goes_on_sending_and_hears_again(house):
    slack = house.scripted()
    await keep(house)
    slack.hears(AccountDown("the app token is wrong"))
    await house.settle()
    deaf = await account(house, "slack")
    sent = await house.deliver("one")
    await house.settle()
    assert (deaf.state, deaf.reason) == ("up", "it can send, but not hear: the app token is wrong")
    assert (await house.delivery(sent)).state == "sent"
    await house.after(1)
    heard = await account(house, "slack")
    assert (heard.state, heard.reason) == ("up", None)


async def test_a_broken_connection_of_one_account_does_not_end_the_others(house):
    slack, telegram = house.scripted(), house.scripted("telegram", kind="telegram")

    async def broken():
        raise RuntimeError("a bug in the SDK")

    slack.connect = broken
    await keep(house)
    await house.after(5)
    assert (await account(house, "slack")).reason == "the connection broke: RuntimeError"
    assert (await account(house, "telegram")).state == "up"
    assert not house.keeping.done()
    assert telegram.workspace == "T1"


async def test_what_is_said_on_an_account_is_heard(house):
    slack = house.scripted()
    await keep(house)
    brief = await house.brief()
    said = Inbound(address=brief.address, author=Author(id="U1", name="Kim"), text="why?", at=house.clock.now())
    slack.hears(said)
    await house.settle()
    assert house.heard == [said]


async def test_the_workspace_of_the_last_connection_is_known_at_the_next_start(house):
    house.scripted()
    await keep(house)
    await house.restart()
    assert await house.db.read(stored_workspaces) == {"local": "local", "slack": "T1"}


async def test_a_brief_for_an_account_that_jobs_yaml_no_longer_names_waits_for_it(house):
    await house.start()
    sent = await house.deliver("one", account="gone")
    await house.after(3600)
    row = await house.delivery(sent)
    assert (row.state, row.error) == ("held", "the account gone is not in jobs.yaml")
    platform = house.scripted("gone")
    await house.up("gone")
    await house.settle()
    assert platform.said() == ["one"]
