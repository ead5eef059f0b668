"""The channel directory over a real database: when it asks the platform, and what it keeps."""

import asyncio

import pytest

from delivery.directory import Directory, DirectoryKeeper, known_chats
from delivery.model import ChatKind
from delivery.ports import AccountDown, Chat, TargetUnresolved

OPS = Chat(chat="C1", name="ops", kind=ChatKind.CHANNEL, members=3)
DEV = Chat(chat="C2", name="dev", kind=ChatKind.CHANNEL)


@pytest.fixture
async def slack(house):
    platform = house.scripted()
    platform.known_chats = [OPS]
    await house.up()
    return platform


@pytest.fixture
def directory(house):
    return Directory(db=house.db, account="slack", now=house.clock.now)


async def test_a_miss_asks_the_platform_once_and_a_hit_does_not(slack, directory):
    assert await directory.find("#ops", slack.chats) == OPS
    assert await directory.find("#ops", slack.chats) == OPS
    assert slack.verbs() == ["chats"]


async def test_a_channel_made_a_moment_ago_is_found_but_a_typo_does_not_hammer_the_platform(house, slack, directory):
    await directory.refresh(slack.chats)
    slack.known_chats = [OPS, DEV]
    for _ in range(5):
        with pytest.raises(TargetUnresolved):
            await directory.find("#dev", slack.chats)
    await house.after(30)
    assert await directory.find("#dev", slack.chats) == DEV
    assert slack.verbs() == ["chats", "chats"]


async def test_ten_misses_at_once_read_the_list_once(slack, directory):
    found = await asyncio.gather(*(directory.find("#ops", slack.chats) for _ in range(10)))
    assert (found, slack.verbs()) == ([OPS] * 10, ["chats"])


async def test_what_is_nowhere_is_refused_with_the_way_out(slack, directory):
    with pytest.raises(TargetUnresolved) as refused:
        await directory.find("#opps", slack.chats)
    assert refused.value.final
    assert refused.value.reason == (
        '"#opps" is nowhere to be found on slack: `hermes-cron targets slack` lists what it reaches;'
        " is the bot a member there?"
    )


async def test_lists_are_read_at_start_and_every_few_minutes_and_only_of_accounts_that_are_up(house, slack):
    telegram = house.scripted("telegram", kind="telegram")
    keeper = DirectoryKeeper(
        db=house.db,
        platforms=house.platforms,
        directories={name: Directory(db=house.db, account=name, now=house.clock.now) for name in ("slack", "telegram")},
        now=house.clock.now,
        sleep=house.clock.sleep,
    )
    task = asyncio.create_task(keeper.run())
    await house.after(601)
    task.cancel()
    assert (slack.verbs(), telegram.verbs()) == (["chats"] * 3, [])
    assert await house.db.read(lambda conn: known_chats(conn, "slack")) == [OPS]


async def test_a_list_that_cannot_be_read_leaves_the_old_one(house, slack, directory):
    await directory.refresh(slack.chats)

    async def down():
        raise AccountDown("invalid_auth")

    slack.chats = down
    keeper = DirectoryKeeper(
        db=house.db,
        platforms=house.platforms,
        directories={"slack": directory},
        now=house.clock.now,
        sleep=house.clock.sleep,
    )
    await house.after(1)
    await keeper.refresh("slack")
    assert await house.db.read(lambda conn: known_chats(conn, "slack")) == [OPS]
