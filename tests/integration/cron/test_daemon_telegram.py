"""A daemon with a Telegram bot, from file to answer: the real SDK over loopback, as people would use it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from daemonbed import Running, daemon, until
from servers.telegram import TelegramServer
from servers.telegram_model import Chat

JOBS = """
    accounts:
      telegram: {{token: "{token}", base_url: "{url}", allow: everyone}}
    jobs:
      builds:
        schedule: in 1s
        surface: {surface}
        deliver: ["telegram:{chat}"]
        text: |
          3 builds failed overnight:

          1. checkout, out of memory
          2. payments, a timeout
"""


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


def jobs(server: TelegramServer, chat: Chat, surface: str = "flat") -> str:
    return JOBS.format(token=server.token, url=server.url, chat=chat.id, surface=surface)


async def delivered(running: Running) -> dict[str, Any]:
    delivery: dict[str, Any] = (await running.run_of("builds"))["deliveries"][0]
    assert delivery["state"] == "sent", delivery
    return delivery


async def answer(server: TelegramServer, chat: Chat, count: int) -> dict[str, Any]:
    """Return the newest of `count` messages that the bot has posted in a chat."""

    def texts() -> list[dict[str, Any]]:
        return [message for message in server.posts(chat) if "text" in message]

    await until(lambda: len(texts()) >= count, f"{count} posts, there are {texts()}")
    return texts()[-1]


async def test_a_brief_in_a_private_chat_can_be_answered_flat_and_by_quoting_it(tmp_path, server):
    ann = server.add_user("Ann")
    chat = server.private(ann)
    async with daemon(tmp_path, jobs(server, chat)) as running:
        delivery = await delivered(running)
        brief = server.posts(chat)[0]
        server.say(chat, ann, "what about payments?")
        flat = await answer(server, chat, 2)
        server.say(chat, ann, "and checkout?", reply_to=brief)
        quoted = await answer(server, chat, 3)

        async def held() -> list[list[str]] | None:
            sessions = [delivery[f"{surface}_session"] for surface in ("flat", "thread")]
            origins = [[turn["origin"] for turn in await running.transcript(one)] for one in sessions]
            return origins if origins == [["cron", "inbound", "answer"]] * 2 else None

        await until(held, "brief, question and answer in each of the two sessions, and nothing else")
    assert delivery["message_ids"] == [str(brief["message_id"])]
    assert "a timeout" in flat["text"]
    assert "out of memory" in quoted["text"]


async def test_an_answer_after_a_restart_still_knows_the_brief(tmp_path, server):
    ann = server.add_user("Ann")
    group = server.add_chat("group", "Ops", members=[ann])
    async with daemon(tmp_path, jobs(server, group)) as running:
        await delivered(running)
    brief = server.posts(group)[0]
    server.say(group, ann, "what about payments?", reply_to=brief)
    async with daemon(tmp_path):
        assert "a timeout" in (await answer(server, group, 2))["text"]
    assert server.posts(group)[-1]["reply_to_message"]["text"] == "what about payments?"


async def test_a_topic_is_opened_for_the_run_and_plain_words_in_it_are_answers(tmp_path, server):
    ann = server.add_user("Ann")
    forum = server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    async with daemon(tmp_path, jobs(server, forum, "thread")) as running:
        delivery = await delivered(running)
        topic = next(iter(forum.topics))
        brief = await answer(server, forum, 1)
        server.say(forum, ann, "what about payments?", topic=topic)
        there = await answer(server, forum, 2)
    assert delivery["root"] == str(topic)
    assert (brief["message_thread_id"], there["message_thread_id"]) == (topic, topic)
    assert "a timeout" in there["text"]


async def test_a_group_that_becomes_a_supergroup_keeps_its_conversation(tmp_path, server):
    ann = server.add_user("Ann")
    group = server.add_chat("group", "Ops", members=[ann])
    async with daemon(tmp_path, jobs(server, group)) as running:
        await delivered(running)
        new = server.migrate(group, by=ann)
        server.say(new, ann, "@brief_bot what about payments?")
        assert "a timeout" in (await answer(server, new, 1))["text"]
    assert len(server.posts(group)) == 1


async def test_a_comment_on_a_channels_brief_is_an_answer_to_it(tmp_path, server):
    ann = server.add_user("Ann")
    talk = server.add_chat("supergroup", "Talk", members=[ann], bot="administrator")
    channel = server.add_chat("channel", "News", bot="administrator", linked=talk)
    async with daemon(tmp_path, jobs(server, channel)) as running:
        await delivered(running)
        forward = next(message for message in talk.messages.values() if message.get("is_automatic_forward"))
        server.say(talk, ann, "what about payments?", reply_to=forward)
        comment = await answer(server, talk, 1)
    assert "a timeout" in comment["text"]
    assert comment["message_thread_id"] == forward["message_id"]


async def test_a_person_who_blocked_the_bot_fails_with_the_reason_and_the_daemon_lives(tmp_path, server):
    """B058."""
    ann = server.add_user("Ann")
    chat = server.private(ann)
    server.block(ann)
    async with daemon(tmp_path, jobs(server, chat)) as running:
        row = await running.run_of("builds")
    assert row["deliveries"][0]["state"] == "failed"
    assert "blocked" in row["deliveries"][0]["error"]


async def test_a_brief_whose_answer_was_lost_is_in_doubt_and_never_sent_twice(tmp_path, server):
    """B039, R16."""
    ann = server.add_user("Ann")
    chat = server.private(ann)
    server.fault("sendMessage", "cut_after")
    async with daemon(tmp_path, jobs(server, chat)) as running:
        row = await running.run_of("builds")
        assert row["deliveries"][0]["state"] == "in_doubt"
        server.say(chat, ann, "what about payments?", reply_to=server.posts(chat)[0])
        assert "a timeout" in (await answer(server, chat, 2))["text"]
        proven = (await running.runs("builds"))[0]["deliveries"][0]
    assert proven["state"] == "sent", "the answer under it is its receipt"
    assert [message["text"].startswith("3 builds") for message in server.posts(chat)].count(True) == 1
