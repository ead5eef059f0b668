"""The daemon against Telegram: briefs, answers in private chats, groups and topics, restarts."""

import pytest
from processbed import Process, process, until
from servers.telegram import TelegramServer

CONFIG = """
    accounts:
      telegram: {{token: "{token}", base_url: "{url}"}}
    targets:
      place: {{to: "telegram:{chat}", listen: {listen}}}
    jobs:
      builds:
        schedule: in 2s
        deliver: [place]
        surface: {surface}
        {writes}
"""
FAILURES = "Three builds failed:\\n\\n1. api: out of memory\\n2. web: a test timed out\\n3. docs: a dead link\\n"
TEXT = f'text: "{FAILURES}"'


def config(server: TelegramServer, chat, *, surface="flat", listen="mentions", writes=TEXT, topic=None) -> str:
    place = f"{chat.id}/{topic.id}" if topic else chat.id
    return CONFIG.format(token=server.token, url=server.url, chat=place, surface=surface, listen=listen, writes=writes)


async def answer_of(server: TelegramServer, daemon: Process, chat, message: dict):
    """Return what the bot posted after a message."""

    def found():
        return next((post for post in server.posts(chat) if post["message_id"] > message["message_id"]), None)

    return await until(found, "an answer", daemon)


async def held(daemon: Process, delivery: dict, surface: str) -> list[dict]:
    return await daemon.transcript(delivery[f"{surface}_session"])


async def test_in_a_private_chat_plain_answers_and_quotes_know_the_brief_also_after_a_restart(tmp_path):
    async with TelegramServer() as server:
        ann = server.add_user("Ann")
        chat = server.private(ann)
        async with process(tmp_path, config(server, chat)) as daemon:
            delivery = (await daemon.run_of("builds"))["deliveries"][0]
            brief = server.posts(chat)[0]
            for surface in ("flat", "thread"):
                turns = await held(daemon, delivery, surface)
                assert [(turn["role"], turn["origin"]) for turn in turns] == [("user", "cron")]
                assert turns[0]["text"].startswith("[Cron delivery: builds]\nThree builds failed:")
            plain = await answer_of(server, daemon, chat, server.say(chat, ann, "why did the second one fail?"))
            quote = await answer_of(server, daemon, chat, server.say(chat, ann, "the third?", reply_to=brief))
            await daemon.restart()
            again = await answer_of(server, daemon, chat, server.say(chat, ann, "and the api?", reply_to=brief))
            flat = await answer_of(server, daemon, chat, server.say(chat, ann, "docs?"))
    assert (delivery["state"], delivery["message_ids"]) == ("sent", [str(brief["message_id"])])
    assert (delivery["flat_seeded"], delivery["thread_seeded"]) == (True, True)
    assert [("a test timed out" in plain["text"]), ("a dead link" in quote["text"])] == [True, True]
    assert [("out of memory" in again["text"]), ("a dead link" in flat["text"])] == [True, True]


async def test_in_a_forum_the_thread_surface_opens_a_topic_whose_plain_messages_are_answers(tmp_path):
    async with TelegramServer() as server:
        ann, bo = server.add_user("Ann"), server.add_user("Bo")
        server.can_read_all_group_messages = True
        forum = server.add_chat("forum", "Team", members=[ann, bo], bot="administrator")
        async with process(tmp_path, config(server, forum, surface="thread")) as daemon:
            delivery = (await daemon.run_of("builds"))["deliveries"][0]
            brief = next(post for post in server.posts(forum) if post.get("text", "").startswith("Three"))
            topic = brief["message_thread_id"]
            plain = await answer_of(server, daemon, forum, server.say(forum, bo, "the second?", topic=topic))
            await daemon.restart()
            again = await answer_of(server, daemon, forum, server.say(forum, ann, "and the first?", topic=topic))
            general = server.say(forum, ann, "@brief_bot the docs?")
            flat = await answer_of(server, daemon, forum, general)
    assert (delivery["state"], delivery["root"]) == ("sent", str(topic))
    assert ("a test timed out" in plain["text"], plain["message_thread_id"]) == (True, topic)
    assert ("out of memory" in again["text"], again["message_thread_id"]) == (True, topic)
    assert ("a dead link" in flat["text"], flat.get("is_topic_message")) == (True, None)


@pytest.mark.parametrize("listen", ["mentions", "all"])
async def test_in_a_group_quotes_and_mentions_are_answered_and_plain_messages_where_all_is_heard(tmp_path, listen):
    async with TelegramServer() as server:
        ann, bo = server.add_user("Ann"), server.add_user("Bo")
        server.can_read_all_group_messages = True
        group = server.add_chat("supergroup", "Team", members=[ann, bo])
        async with process(tmp_path, config(server, group, listen=listen)) as daemon:
            await daemon.run_of("builds")
            brief = server.posts(group)[0]
            quote = await answer_of(server, daemon, group, server.say(group, ann, "the second?", reply_to=brief))
            mention = await answer_of(server, daemon, group, server.say(group, bo, "@brief_bot what of docs?"))
            plain = server.say(group, bo, "the api broke")
            last = server.say(group, ann, "the third?", reply_to=brief)
            await answer_of(server, daemon, group, last)
            await until(lambda: "a dead link" in server.posts(group)[-1]["text"], "the last answer", daemon)
            later = [post for post in server.posts(group) if post["message_id"] > plain["message_id"]]
    assert ("a test timed out" in quote["text"], quote["reply_to_message"]["from"]["id"] == ann.id) == (True, True)
    assert "a dead link" in mention["text"]
    assert len(later) == (2 if listen == "all" else 1)


async def test_a_brief_into_a_topic_is_answered_there(tmp_path):
    async with TelegramServer() as server:
        ann = server.add_user("Ann")
        server.can_read_all_group_messages = True
        forum = server.add_chat("forum", "Team", members=[ann], bot="administrator")
        topic = server.topic(forum, "Builds", by=ann)
        async with process(tmp_path, config(server, forum, topic=topic)) as daemon:
            delivery = (await daemon.run_of("builds"))["deliveries"][0]
            brief = server.posts(forum)[0]
            quote = await answer_of(
                server, daemon, forum, server.say(forum, ann, "the second?", topic=topic.id, reply_to=brief)
            )
            mention = await answer_of(server, daemon, forum, server.say(forum, ann, "@brief_bot docs?", topic=topic.id))
    assert (delivery["state"], brief["message_thread_id"]) == ("sent", topic.id)
    assert ("a test timed out" in quote["text"], quote["message_thread_id"]) == (True, topic.id)
    assert ("a dead link" in mention["text"], mention["message_thread_id"]) == (True, topic.id)


async def test_a_user_who_blocked_the_bot_gets_nothing_and_nothing_is_seeded(tmp_path):
    async with TelegramServer() as server:
        ann = server.add_user("Ann")
        chat = server.private(ann)
        server.block(ann)
        async with process(tmp_path, config(server, chat)) as daemon:
            delivery = (await daemon.run_of("builds"))["deliveries"][0]
            sessions = await daemon.json("sessions")
    assert (delivery["state"], "blocked" in delivery["error"]) == ("failed", True)
    assert [one for one in sessions if one["account"] == "telegram"] == []


async def test_messages_sent_while_the_daemon_was_killed_are_answered_once(tmp_path):
    async with TelegramServer() as server:
        ann = server.add_user("Ann")
        chat = server.private(ann)
        async with process(tmp_path, config(server, chat)) as daemon:
            await daemon.run_of("builds")
            await daemon.kill()
            asked = server.say(chat, ann, "the second?")
            await daemon.start()
            await answer_of(server, daemon, chat, asked)
            again = server.say(chat, ann, "the first?")
            answer = await answer_of(server, daemon, chat, again)
            answers = [post for post in server.posts(chat) if post["message_id"] > asked["message_id"]]
    assert ("out of memory" in answer["text"], len(answers)) == (True, 2)
