"""The Telegram test server, as the real python-telegram-bot sees it: messages, topics, groups, updates."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from servers.telegram import DEFAULT_TOKEN, TelegramServer
from telegram import Bot, InputFile, Message, MessageEntity, ReplyParameters, Update
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken
from telegram.ext import Application


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with Bot(DEFAULT_TOKEN, base_url=server.base_url, base_file_url=server.base_file_url) as connected:
        yield connected


def heard(server: TelegramServer, message: dict[str, Any]) -> bool:
    return server.update_of(message) is not None


async def newest(bot: Bot) -> Message:
    updates = await bot.get_updates(timeout=0, allowed_updates=Update.ALL_TYPES)
    message = updates[-1].effective_message
    assert isinstance(message, Message)
    return message


# who the bot is


async def test_the_bot_knows_its_name_and_settings(server: TelegramServer, bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.username, me.can_read_all_group_messages, me.has_topics_enabled) == (
        7000000001,
        "brief_bot",
        False,
        False,
    )


@pytest.mark.parametrize(("token", "words"), [("7000000001:wrong", "Unauthorized"), ("nonsense", "Not Found")])
async def test_a_wrong_token_is_refused(server: TelegramServer, token: str, words: str) -> None:
    bot = Bot(token, base_url=server.base_url)
    try:
        with pytest.raises(InvalidToken, match=words):
            await bot.get_me()
    finally:
        await bot.request.shutdown()


async def test_an_unknown_method_is_not_found(bot: Bot) -> None:
    with pytest.raises(Exception, match="not found"):
        await bot.do_api_request("inventSomething")


async def test_commands_are_kept(bot: Bot) -> None:
    await bot.set_my_commands([("cron", "jobs"), ("new", "start over")])
    assert [c.command for c in await bot.get_my_commands()] == ["cron", "new"]
    with pytest.raises(BadRequest, match="Bot_command_invalid"):
        await bot.set_my_commands([("Cron!", "jobs")])


# updates


async def test_a_whole_application_polls_and_answers(server: TelegramServer) -> None:
    ann = server.add_user("Ann")
    app = Application.builder().token(server.token).base_url(server.base_url).build()
    assert app.updater is not None
    await app.initialize()
    await app.updater.start_polling(timeout=5)
    server.say(server.private(ann), ann, "hello")
    update = await asyncio.wait_for(app.update_queue.get(), 5)
    assert isinstance(update, Update) and update.message is not None
    await app.bot.send_message(update.message.chat_id, "hello yourself")
    await server.wait_read()
    await app.updater.stop()
    await app.shutdown()
    assert [m["text"] for m in server.posts()] == ["hello yourself"]


async def test_a_long_poll_returns_when_something_is_said(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await server.changes.until(lambda: bool(server.calls), 5)
    assert not poll.done()
    server.say(server.private(ann), ann, "now")
    updates = await asyncio.wait_for(poll, 5)
    assert [u.message.text for u in updates if u.message] == ["now"]


async def test_updates_come_again_until_a_later_offset_acknowledges_them(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    for text in ("one", "two", "three"):
        server.say(server.private(ann), ann, text)
    first = await bot.get_updates(limit=2)
    again = await bot.get_updates(limit=2)
    assert [u.update_id for u in first] == [u.update_id for u in again]
    rest = await bot.get_updates(offset=first[-1].update_id + 1)
    assert [u.message.text for u in rest if u.message] == ["three"]
    assert first[0].update_id < first[1].update_id < rest[0].update_id


async def test_only_the_kinds_asked_for_come(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    await bot.get_updates(allowed_updates=["message"])
    first = server.say(server.private(ann), ann, "one")
    server.edit(first, "two")
    assert [u.update_id for u in await bot.get_updates()] == [server.updates.everything[0]["update_id"]]


async def test_a_second_poller_ends_the_first_with_a_conflict(server: TelegramServer, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await server.changes.until(lambda: bool(server.calls), 5)
    async with Bot(DEFAULT_TOKEN, base_url=server.base_url) as other:
        assert await other.get_updates(timeout=0) == ()
    with pytest.raises(Conflict, match="terminated by other getUpdates request"):
        await poll


async def test_an_active_webhook_forbids_polling(bot: Bot) -> None:
    await bot.set_webhook("https://bot.example/hook")
    with pytest.raises(Conflict, match="webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert (await bot.get_webhook_info()).url == ""
    assert await bot.get_updates() == ()


async def test_an_update_can_be_redelivered_under_its_id_and_another(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    said = server.say(server.private(ann), ann, "once")
    update = server.update_of(said)
    assert update is not None
    await bot.get_updates(offset=update["update_id"] + 1)
    server.redeliver(update)
    server.redeliver(update, update_id=77)
    assert [u.update_id for u in await bot.get_updates()] == [update["update_id"], 77]


# sending text


async def test_text_is_trimmed_and_entities_keep_their_place(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    entities = [MessageEntity("bold", 2, 3), MessageEntity("text_link", 6, 2, url="https://a.example/x")]
    sent = await bot.send_message(chat.id, "\n\nbad \U0001f600 see https://b.example  \n", entities=entities)
    assert sent.text == "bad \U0001f600 see https://b.example"
    assert [(e.type, e.offset, e.length) for e in sent.entities] == [
        ("bold", 0, 3),
        ("text_link", 4, 2),
        ("url", 11, 17),
    ]


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        (MessageEntity("bold", 0, 9), "beginning at UTF-16 offset 0 ends after the end of the text at UTF-16 offset 9"),
        (MessageEntity("bold", 8, 1), "entity begins after the end of the text at UTF-16 offset 8"),
        (MessageEntity("bold", 5, 1), "in a middle of a UTF-16 symbol"),
        (MessageEntity("sparkle", 0, 1), "can't parse MessageEntity: Unsupported type specified"),
        (MessageEntity("text_link", 0, 1), "can't parse MessageEntity: Can't find field \"url\""),
        (MessageEntity("text_link", 0, 1, url="localhost"), "entity URL 'localhost' is invalid: Wrong HTTP URL"),
    ],
)
async def test_entities_outside_the_text_or_unknown_are_refused(
    server: TelegramServer, bot: Bot, entity: MessageEntity, words: str
) -> None:
    chat = server.private(server.add_user("Ann"))
    with pytest.raises(BadRequest) as refused:
        await bot.send_message(chat.id, "four \U0001f600", entities=[entity])
    assert words.casefold() in str(refused.value).casefold()
    assert server.posts() == []


async def test_entities_that_cross_are_refused_and_nested_ones_kept(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    with pytest.raises(BadRequest, match="ends after the end of the text"):
        await bot.send_message(
            chat.id, "0123456789", entities=[MessageEntity("bold", 0, 6), MessageEntity("italic", 3, 6)]
        )
    sent = await bot.send_message(
        chat.id, "0123", entities=[MessageEntity("bold", 0, 4), MessageEntity("italic", 1, 2)]
    )
    assert len(sent.entities) == 2


async def test_entities_beyond_a_hundred_are_dropped(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    entities = [MessageEntity("bold", 2 * i, 1) for i in range(130)]
    sent = await bot.send_message(chat.id, "b " * 130, entities=entities)
    assert len(sent.entities) == 100


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\U0001f600" * 2049, "Message is too long"),
        ("x" * 4097, "Message is too long"),
        (" \n ", "Message text is empty"),
    ],
)
async def test_texts_too_long_or_empty_are_refused(server: TelegramServer, bot: Bot, text: str, words: str) -> None:
    chat = server.private(server.add_user("Ann"))
    with pytest.raises(BadRequest, match=words):
        await bot.send_message(chat.id, text)


async def test_the_longest_text_is_4096_utf16_units(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    assert (await bot.send_message(chat.id, "\U0001f600" * 2048)).text == "\U0001f600" * 2048


async def test_html_becomes_entities_and_broken_markup_is_refused(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    sent = await bot.send_message(chat.id, "<b>bold</b> &lt;ok", parse_mode="HTML")
    assert (sent.text, [e.type for e in sent.entities]) == ("bold <ok", ["bold"])
    for text, mode in (("<b>open", "HTML"), ("<int>", "HTML"), ("1. one", "MarkdownV2"), ("x", "BBCode")):
        with pytest.raises(BadRequest, match=r"parse"):
            await bot.send_message(chat.id, text, parse_mode=mode)


async def test_ids_rise_within_a_chat_and_a_supergroup_has_its_own(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    group = server.add_chat("supergroup", "Ops", members=[ann])
    in_dm = [(await bot.send_message(ann.id if i else server.private(ann).id, "x")).message_id for i in range(3)]
    in_group = [(await bot.send_message(group.id, "x")).message_id for _ in range(2)]
    assert in_dm == sorted(set(in_dm))
    assert in_group == [2, 3]


async def test_a_reply_is_echoed_and_an_unknown_message_refused(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    asked = server.say(server.private(ann), ann, "which one failed?")
    answer = await bot.send_message(
        ann.id, "the second", reply_parameters=ReplyParameters(asked["message_id"], quote="which one")
    )
    assert answer.reply_to_message is not None and answer.quote is not None
    assert (answer.reply_to_message.message_id, answer.quote.text) == (asked["message_id"], "which one")
    with pytest.raises(BadRequest, match="Message to be replied not found"):
        await bot.send_message(ann.id, "x", reply_parameters=ReplyParameters(999))
    alone = await bot.send_message(ann.id, "x", reply_parameters=ReplyParameters(999, allow_sending_without_reply=True))
    assert alone.reply_to_message is None


async def test_editing_and_deleting(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    chat = server.private(ann)
    theirs = server.say(chat, ann, "mine")
    sent = await bot.send_message(chat.id, "draft")
    edited = await bot.edit_message_text("done", chat.id, sent.message_id)
    assert isinstance(edited, Message) and edited.text == "done" and edited.edit_date is not None
    assert [m["text"] for m in server.posts()] == ["done"]
    for message_id, words in (
        (sent.message_id, "Message is not modified"),
        (999, "Message to edit not found"),
        (theirs["message_id"], "Message can't be edited"),
    ):
        with pytest.raises(BadRequest, match=words):
            await bot.edit_message_text("done", chat.id, message_id)
    await bot.delete_message(chat.id, sent.message_id)
    assert server.posts() == []
    with pytest.raises(BadRequest, match="Message to delete not found"):
        await bot.delete_message(chat.id, sent.message_id)


async def test_a_document_arrives_and_can_be_fetched(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    sent = await bot.send_document(chat.id, InputFile(b"a,b\n1,2\n", filename="report.csv"), caption="the figures")
    assert sent.document is not None
    assert (sent.document.file_name, sent.document.file_size, sent.caption) == ("report.csv", 8, "the figures")
    file = await sent.document.get_file()
    assert bytes(await file.download_as_bytearray()) == b"a,b\n1,2\n"
    with pytest.raises(BadRequest, match="caption is too long"):
        await bot.send_document(chat.id, InputFile(b"x", filename="x"), caption="x" * 1025)


async def test_chat_actions_are_checked_and_not_for_channels(server: TelegramServer, bot: Bot) -> None:
    chat = server.private(server.add_user("Ann"))
    channel = server.add_chat("channel", "News", bot="administrator")
    assert await bot.send_chat_action(chat.id, "typing")
    for chat_id, action in ((chat.id, "dancing"), (channel.id, "typing")):
        with pytest.raises(BadRequest):
            await bot.send_chat_action(chat_id, action)


# refusals


async def test_who_cannot_be_written_to(server: TelegramServer, bot: Bot) -> None:
    ann, stranger = server.add_user("Ann"), server.add_user("Never started")
    server.private(ann)
    server.block(ann)
    kicked = server.add_chat("supergroup", "Out", bot="kicked")
    absent = server.add_chat("group", "Away", bot="left")
    channel = server.add_chat("channel", "News", bot="member")
    muted = server.add_chat("group", "Quiet")
    muted.is_silenced = True
    for chat_id, kind, words in (
        (ann.id, Forbidden, "Forbidden: bot was blocked by the user"),
        (stranger.id, Forbidden, "bot can't initiate conversation with a user"),
        (kicked.id, Forbidden, "bot was kicked from the supergroup chat"),
        (absent.id, Forbidden, "bot is not a member of the group chat"),
        (channel.id, BadRequest, "Need administrator rights in the channel chat"),
        (muted.id, BadRequest, "Not enough rights to send text messages to the chat"),
        (424242, BadRequest, "Chat not found"),
        ("@nobody", BadRequest, "Chat not found"),
    ):
        with pytest.raises(kind, match=words):
            await bot.send_message(chat_id, "x")
    server.unblock(ann)
    await bot.send_message(ann.id, "welcome back")
    updates = await bot.get_updates()
    assert [u.my_chat_member.new_chat_member.status for u in updates if u.my_chat_member] == ["kicked", "member"]


async def test_a_group_that_became_a_supergroup_says_where_it_went(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    group = server.add_chat("group", "Ops", members=[ann])
    await bot.send_message(group.id, "before")
    new = server.migrate(group, by=ann)
    with pytest.raises(ChatMigrated) as moved:
        await bot.send_message(group.id, "after")
    assert moved.value.new_chat_id == new.id
    messages = [u.message for u in await bot.get_updates()]
    assert [(m.chat_id, m.migrate_to_chat_id, m.migrate_from_chat_id) for m in messages if m] == [
        (group.id, new.id, None),
        (new.id, None, group.id),
    ]
    assert (await bot.send_message(new.id, "after")).message_id == 2


# topics


async def test_topics_in_a_forum(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    forum = server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    topic = await bot.create_forum_topic(forum.id, "build-health 1 December")
    created = await newest(bot)
    assert created.forum_topic_created is not None
    assert (created.message_id, created.forum_topic_created.name) == (topic.message_thread_id, topic.name)
    brief = await bot.send_message(forum.id, "3 builds failed", message_thread_id=topic.message_thread_id)
    assert (brief.is_topic_message, brief.message_thread_id) == (True, topic.message_thread_id)

    server.say(forum, ann, "why?", topic=topic.message_thread_id)
    plain = await newest(bot)
    assert plain.reply_to_message is not None
    assert (plain.message_thread_id, plain.reply_to_message.message_id) == (topic.message_thread_id,) * 2

    server.say(forum, ann, "and this?", reply_to=brief.message_id)
    reply = await newest(bot)
    assert reply.reply_to_message is not None
    assert (reply.message_thread_id, reply.reply_to_message.message_id) == (topic.message_thread_id, brief.message_id)

    server.say(forum, ann, "in general")
    general = await newest(bot)
    assert (general.message_thread_id, general.is_topic_message) == (None, None)


async def test_topics_that_cannot_be_posted_to(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    forum = server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    topic = (await bot.create_forum_topic(forum.id, "x")).message_thread_id
    for thread in (1, 9999):
        with pytest.raises(BadRequest, match="Message thread not found"):
            await bot.send_message(forum.id, "x", message_thread_id=thread)
    await bot.close_forum_topic(forum.id, topic)
    await bot.send_message(forum.id, "admins still may", message_thread_id=topic)
    server.set_bot_status(forum, "member", by=ann)
    with pytest.raises(BadRequest, match="Topic_closed"):
        await bot.send_message(forum.id, "x", message_thread_id=topic)
    server.set_bot_status(forum, "administrator", by=ann)
    await bot.delete_forum_topic(forum.id, topic)
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(forum.id, "x", message_thread_id=topic)
    assert server.posts(forum) == []


async def test_a_thread_id_in_a_group_without_topics_is_ignored_in_silence(server: TelegramServer, bot: Bot) -> None:
    group = server.add_chat("supergroup", "Ops")
    sent = await bot.send_message(group.id, "x", message_thread_id=77)
    assert (sent.message_thread_id, sent.is_topic_message) == (None, None)


async def test_opening_a_topic_needs_a_forum_and_the_right(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    plain = server.add_chat("supergroup", "Plain", bot="administrator")
    forum = server.add_chat("forum", "Ops", bot="administrator", rights={"can_manage_topics": False})
    for chat_id, words in (
        (plain.id, "The chat is not a forum"),
        (forum.id, "Not enough rights to create a topic"),
        (server.private(ann).id, "The chat is not a forum"),
    ):
        with pytest.raises(BadRequest, match=words):
            await bot.create_forum_topic(chat_id, "x")


async def test_topics_in_a_private_chat_need_no_right(server: TelegramServer, bot: Bot) -> None:
    server.has_topics_enabled = True
    ann = server.add_user("Ann")
    chat = server.private(ann)
    topic = await bot.create_forum_topic(chat.id, "brief")
    sent = await bot.send_message(chat.id, "x", message_thread_id=topic.message_thread_id)
    assert sent.message_thread_id == topic.message_thread_id
    with pytest.raises(BadRequest, match="Message thread not found"):
        await bot.send_message(chat.id, "x", message_thread_id=9999)


async def test_an_answer_from_another_topic_is_an_external_reply(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    forum = server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    here, there = server.topic(forum, "here", by=ann), server.topic(forum, "there", by=ann)
    brief = await bot.send_message(forum.id, "brief", message_thread_id=here.id)
    server.say(forum, ann, "about that", topic=there, external_reply=forum.messages[brief.message_id], quote="brief")
    message = await newest(bot)
    assert message.external_reply is not None and message.quote is not None and message.reply_to_message is None
    assert (message.external_reply.message_id, message.message_thread_id) == (brief.message_id, there.id)


async def test_a_reply_chain_in_a_supergroup_carries_its_root(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    group = server.add_chat("supergroup", "Ops", members=[ann])
    brief = await bot.send_message(group.id, "brief")
    first = server.say(group, ann, "why?", reply_to=brief.message_id)
    second = server.say(group, ann, "hm", reply_to=first, deliver=True)
    assert [m["message_thread_id"] for m in (first, second)] == [brief.message_id] * 2
    assert "is_topic_message" not in second


# what a group bot hears


async def test_privacy_mode_lets_replies_mentions_and_commands_through(server: TelegramServer, bot: Bot) -> None:
    ann, other = server.add_user("Ann"), server.add_user("Other", username="other_bot", is_bot=True)
    group = server.add_chat("supergroup", "Ops", members=[ann, other])
    brief = await bot.send_message(group.id, "brief")
    theirs = server.say(group, other, "numbers")
    said = {
        text: heard(server, server.say(group, ann, text, reply_to=reply))
        for text, reply in (
            ("plain", None),
            ("a reply", brief.message_id),
            ("hey @Brief_Bot look", None),
            ("hey @someone_else", None),
            ("/cron@brief_bot list", None),
            ("/cron@other_bot list", None),
            ("/bare after the other bot spoke", None),
            ("@brief_bot, in reply to the other bot", theirs["message_id"]),
        )
    }
    await bot.send_message(group.id, "spoke last")
    said["/bare"] = heard(server, server.say(group, ann, "/bare"))
    assert not heard(server, theirs)
    assert [text for text, got in said.items() if got] == [
        "a reply",
        "hey @Brief_Bot look",
        "/cron@brief_bot list",
        "/bare",
    ]


async def test_admins_and_bots_without_privacy_hear_everything(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    group = server.add_chat("group", "Ops", members=[ann])
    assert not heard(server, server.say(group, ann, "plain"))
    assert heard(server, server.service(group, ann, new_chat_title="Ops 2"))
    server.set_bot_status(group, "administrator", by=ann)
    assert heard(server, server.say(group, ann, "plain"))
    server.set_bot_status(group, "member", by=ann)
    server.can_read_all_group_messages = True
    assert heard(server, server.say(group, ann, "plain"))


async def test_stand_in_senders(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    group = server.add_chat("supergroup", "Ops", members=[ann], bot="administrator")
    channel = server.add_chat("channel", "News")
    server.say(group, ann, "as the group", sender_chat=group)
    anonymous = await newest(bot)
    server.say(group, ann, "as a channel", sender_chat=channel)
    as_channel = await newest(bot)
    assert anonymous.from_user is not None and as_channel.from_user is not None
    assert anonymous.sender_chat is not None and as_channel.sender_chat is not None
    assert (anonymous.from_user.id, anonymous.sender_chat.id) == (1087968824, group.id)
    assert (as_channel.from_user.id, as_channel.sender_chat.id) == (136817688, channel.id)


async def test_a_channel_post_and_a_comment_on_it(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    group = server.add_chat("supergroup", "Discussion", members=[ann], bot="administrator")
    channel = server.add_chat("channel", "News", username="news", bot="administrator", linked=group)
    sent = await bot.send_message("@news", "the brief")
    assert sent.from_user is None and sent.sender_chat is not None and sent.sender_chat.id == channel.id
    forward = await newest(bot)
    assert forward.is_automatic_forward and forward.from_user is not None and forward.from_user.id == 777000
    assert forward.api_kwargs == {} and forward.forward_origin is not None
    assert forward.forward_origin.to_dict()["message_id"] == sent.message_id
    server.say(group, ann, "a comment", reply_to=forward.message_id)
    comment = await newest(bot)
    assert comment.reply_to_message is not None and comment.reply_to_message.is_automatic_forward
    assert comment.message_thread_id == forward.message_id

    post, copy = server.channel_post(channel, "somebody else's")
    assert copy is not None
    assert heard(server, post) and heard(server, copy)


async def test_an_edit_a_button_and_a_reaction_reach_the_bot(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    chat = server.private(ann)
    await bot.get_updates(allowed_updates=Update.ALL_TYPES)
    server.edit(server.say(chat, ann, "wat"), "what?")
    brief = await bot.send_message(chat.id, "brief")
    server.press(chat.messages[brief.message_id], ann, "why")
    server.react(chat.messages[brief.message_id], ann, "\U0001f44d")
    _, edit, press, reaction = await bot.get_updates(allowed_updates=Update.ALL_TYPES)
    assert edit.edited_message is not None and edit.edited_message.text == "what?"
    assert press.callback_query is not None and press.callback_query.data == "why"
    assert await bot.answer_callback_query(press.callback_query.id)
    assert reaction.message_reaction is not None
    assert reaction.message_reaction.message_id == brief.message_id


async def test_chats_and_members_can_be_asked_for(server: TelegramServer, bot: Bot) -> None:
    ann = server.add_user("Ann")
    forum = server.add_chat("forum", "Ops", members=[ann], bot="administrator", rights={"can_manage_topics": False})
    full = await bot.get_chat(forum.id)
    assert (full.title, full.type, full.is_forum) == ("Ops", "supergroup", True)
    me = await bot.get_chat_member(forum.id, bot.id)
    assert (me.status, me.to_dict()["can_manage_topics"]) == ("administrator", False)
    assert (await bot.get_chat_member(forum.id, ann.id)).status == "member"
    assert [m.user.id for m in await bot.get_chat_administrators(forum.id)] == [bot.id]
    with pytest.raises(BadRequest, match="There are no administrators in the private chat"):
        await bot.get_chat_administrators(server.private(ann).id)
