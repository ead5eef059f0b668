"""What people say on the local page."""

import asyncio

import pytest
from sqlalchemy import insert

from delivery.model import Address, ChatKind, Inbound
from delivery.platforms.local import LocalError, channel_name, messages
from delivery.ports import TargetUnresolved
from delivery.targets import parse_target
from state import schema


@pytest.fixture
async def listening(house):
    async def note(inbound: Inbound) -> None:
        house.heard.append(inbound)

    task = asyncio.create_task(house.local.listen(note))
    yield house
    task.cancel()


async def shown(house, channel="general", after=None):
    return await house.db.read(lambda conn: messages(conn, channel, after))


async def test_what_a_person_says_is_shown_and_heard(listening):
    said = await listening.local.say("#General", "why did the second one fail?", "Kim")
    await listening.settle()
    assert await shown(listening) == [said]
    assert said == {
        "id": said["id"],
        "channel": "general",
        "thread": None,
        "author": "Kim",
        "text": "why did the second one fail?",
        "at": "2026-03-02T09:00:00+00:00",
        "job": None,
    }
    (heard,) = listening.heard
    assert heard.address == Address(
        account="local",
        workspace="local",
        chat="general",
        chat_kind=ChatKind.CHANNEL,
        message=said["id"],
    )
    assert (heard.text, heard.author.name, heard.answers_us) == (said["text"], "Kim", False)


async def test_an_answer_in_a_briefs_thread_names_the_brief_that_it_answers(listening):
    await listening.start()
    brief = await listening.deliver("3 builds failed", account="local", address=_general())
    await listening.settle()
    (root,) = await listening.message_ids(brief)
    first = await listening.local.say("general", "why?", thread=root)
    await listening.local.say("general", "and then?", thread=first["id"])
    await listening.settle()
    assert [(one.address.root, one.answers_us) for one in listening.heard] == [(root, True), (root, True)]
    assert [one["thread"] for one in await shown(listening)] == [None, root, root]


def _general():
    return Address(account="local", workspace="local", chat="general", chat_kind=ChatKind.CHANNEL)


async def test_what_was_said_before_the_process_died_is_heard_by_the_next_one_once(house):
    await house.local.say("general", "one")
    await house.local.say("general", "two")
    await house.restart()
    for _ in range(2):
        keeper = house.keeper()
        task = asyncio.create_task(keeper.keep("local"))
        await house.settle()
        task.cancel()
    assert [one.text for one in house.heard] == ["one", "two"]


async def test_what_could_not_be_taken_in_is_handed_over_again_in_order(house):
    failures = [RuntimeError("disk full")]

    async def hear(inbound):
        if failures:
            raise failures.pop()
        house.heard.append(inbound)

    task = asyncio.create_task(house.local.listen(hear))
    await house.local.say("general", "one")
    await house.local.say("general", "two")
    await house.after(1)
    task.cancel()
    assert [one.text for one in house.heard] == ["one", "two"]


@pytest.mark.parametrize(
    ("channel", "text", "author", "thread", "sentence"),
    [
        ("no spaces", "x", "Kim", None, '"no spaces" is no channel name'),
        ("", "x", "Kim", None, '"" is no channel name'),
        ("a/b", "x", "Kim", None, '"a/b" is no channel name'),
        ("a\nb", "x", "Kim", None, "is no channel name"),
        ("general", "   ", "Kim", None, "an empty message: write something"),
        ("general", "x" * 40_001, "Kim", None, "at most 40000 characters, this one has 40001"),
        ("general", "\ud800", "Kim", None, "half a character"),
        ("general", "x", "y" * 81, None, "a name has at most 80 characters"),
        ("general", "x", "Kim", "999", "there is no message 999 in #general"),
        ("general", "x", "Kim", "-1", '"-1" is no message id'),
        ("general", "x", "Kim", "1.5", '"1.5" is no message id'),
        ("general", "x", "Kim", "9" * 30, "is no message id"),
    ],
)
async def test_what_cannot_be_said_is_refused_in_a_sentence(house, channel, text, author, thread, sentence):
    with pytest.raises(LocalError, match=sentence):
        await house.local.say(channel, text, author, thread)
    assert await shown(house) == []


async def test_a_thread_belongs_to_its_channel(house):
    said = await house.local.say("general", "here")
    with pytest.raises(LocalError, match=f"there is no message {said['id']} in #ops"):
        await house.local.say("ops", "there", thread=said["id"])


def test_channels_are_small_letters_without_their_sign():
    assert [channel_name(text) for text in ("#Ops", "ops", " OPS ", "bücher", "build-health")] == [
        "ops",
        "ops",
        "ops",
        "bücher",
        "build-health",
    ]


async def test_the_newest_thousand_are_shown_and_the_rest_can_be_asked_for(house):
    rows = [
        {"channel": "general", "author": "Kim", "text": str(n), "at": house.clock.now(), "heard": True}
        for n in range(1, 2502)
    ]
    await house.db.write(lambda conn: conn.execute(insert(schema.local_messages), rows).rowcount)
    newest = await shown(house)
    assert [newest[0]["text"], newest[-1]["text"], len(newest)] == ["1502", "2501", 1000]
    first = await shown(house, after="0")
    rest = await shown(house, after=first[-1]["id"])
    assert [first[0]["text"], first[-1]["text"], rest[0]["text"], rest[-1]["text"]] == [
        "1",
        "1000",
        "1001",
        "2000",
    ]


async def test_watchers_see_a_message_after_its_commit_and_none_twice(house):
    seen = []

    async def watch():
        async for message in house.local.changes("general"):
            seen.append(message["text"])

    task = asyncio.create_task(watch())
    await house.settle()
    await house.local.say("general", "one")
    await house.local.say("ops", "elsewhere")
    await house.local.say("general", "two")
    async with asyncio.timeout(10):
        while len(seen) < 2:  # watchers hear from the writer's thread, a moment after the commit
            await house.settle()
    await house.local.say("ops", "elsewhere again")
    await house.settle()
    task.cancel()
    assert seen == ["one", "two"]


async def test_a_watcher_that_comes_back_is_shown_what_it_missed(house):
    first = await house.local.say("general", "one")
    await house.local.say("general", "two")
    watcher = house.local.changes("general", after=first["id"])
    assert (await anext(watcher))["text"] == "two"
    await watcher.aclose()


async def test_a_local_target_names_its_channel_and_its_thread(house):
    said = await house.local.say("ops", "root")
    reply = await house.local.say("ops", "reply", thread=said["id"])
    found = await house.local.resolve(parse_target(f"local:#ops/{reply['id']}", {}))
    assert (found.chat, found.root, found.chat_kind) == ("ops", said["id"], ChatKind.CHANNEL)
    with pytest.raises(TargetUnresolved) as refused:
        await house.local.resolve(parse_target("local:#ops/777", {}))
    assert refused.value.final
    assert refused.value.reason == "there is no message 777 in #ops: answer one that the channel shows"


async def test_what_a_person_wrote_is_not_ours_to_delete(house):
    said = await house.local.say("general", "mine")
    await house.start()
    brief = await house.deliver("ours", account="local", address=_general())
    await house.settle()
    (ours,) = await house.message_ids(brief)
    from dataclasses import replace

    from delivery.model import Receipt

    for message in (said["id"], ours):
        await house.local.retract(Receipt(address=replace(_general(), message=message), at=house.clock.now()))
    assert [one["text"] for one in await shown(house)] == ["mine"]


async def test_the_directory_lists_the_channels_in_which_something_was_said(house):
    await house.local.say("ops", "x")
    await house.local.say("general", "x")
    assert [one.name for one in await house.local.chats()] == ["general", "ops"]
