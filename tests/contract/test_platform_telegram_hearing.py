"""What people write on Telegram, as the program hears it: over the real SDK and a real socket."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from servers.telegram_model import CHANNEL_BOT_ID
from telegrambed import BOT, Bed, telegram_bed

from delivery.model import Address, Author, ChatKind, Inbound
from seeding.keys import candidates_for, keys_for
from seeding.model import ChatRules, Landed


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    async with telegram_bed(tmp_path) as made:
        yield made


def spot(inbound: Inbound) -> tuple[str | None, str | None, str | None]:
    return inbound.address.topic, inbound.address.root, inbound.thread


# --- who and where ------------------------------------------------------------------------------------------


async def test_a_plain_message_in_a_private_chat(bed: Bed) -> None:
    ann = bed.server.add_user("Ann", username="ann")
    chat = bed.server.private(ann)
    heard = await bed.hears(lambda: bed.server.say(chat, ann, "why did the second one fail?"))
    assert heard == Inbound(
        address=Address(
            account="telegram",
            workspace=BOT,
            chat=str(chat.id),
            chat_kind=ChatKind.DM,
            message=str(next(reversed(chat.messages))),
        ),
        author=Author(id=str(ann.id), name="Ann"),
        text="why did the second one fail?",
        at=bed.at,
        mentioned=True,
    )


async def test_an_answer_that_quotes_the_brief_names_it(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    brief = (await bed.sent(chat)).receipt.address
    heard = await bed.hears(lambda: bed.server.say(chat, ann, "why?", reply_to=int(brief.message or 0), quote="builds"))
    assert spot(heard) == (None, brief.message, None)
    assert (heard.answers_us, heard.text) == (True, "why?")


async def test_an_answer_tells_when_and_with_what_text_our_message_was_posted_and_nothing_of_other_peoples(bed: Bed):
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    brief = (await bed.sent(group, "3 builds failed")).receipt
    heard = await bed.hears(lambda: bed.server.say(group, ann, "why?", reply_to=int(brief.address.message or 0)))
    assert (heard.answered_at, heard.answered_text) == (brief.at, "3 builds failed")
    theirs = await bed.hears(lambda: bed.server.say(group, ann, "@brief_bot lunch?"))
    heard = await bed.hears(
        lambda: bed.server.say(group, ann, "@brief_bot and?", reply_to=int(theirs.address.message or 0))
    )
    assert (heard.answered_at, heard.answered_text) == (None, None)


async def test_an_answer_to_part_two_of_three_in_a_privacy_mode_group_continues_it(bed: Bed) -> None:
    """B081 (a): a reply to any part reaches the bot and names that part."""
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    parts = [(await bed.sent(group, text)).receipt.address for text in ("1/3", "2/3", "3/3")]
    heard = await bed.hears(lambda: bed.server.say(group, ann, "why?", reply_to=int(parts[1].message or 0)))
    assert (heard.address.root, heard.answers_us, heard.mentioned) == (parts[1].message, True, False)


async def test_privacy_mode_lets_mentions_through_and_nothing_plain(bed: Bed) -> None:
    """B081 (b) and (c), and what tells the owner so."""
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    async with bed.listening():
        bed.server.say(group, ann, "plain")
        bed.server.say(group, ann, "@Brief_Bot more")
        await bed.heard.until(1)
        await bed.server.wait_read()
    assert [(one.text, one.mentioned) for one in bed.heard.inbounds] == [("more", True)]
    assert bed.platform.me is not None and not bed.platform.me.reads_all
    bed.server.can_read_all_group_messages = True
    await bed.platform.connect()
    assert bed.platform.me.reads_all
    heard = await bed.hears(lambda: bed.server.say(group, ann, "plain"))
    assert (heard.text, heard.mentioned) == ("plain", False)


async def test_a_topic_message_lies_in_its_topic_and_answers_nothing(bed: Bed) -> None:
    """B066: every plain message of a topic carries the opening message as the one it replies to."""
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    topic = bed.server.topic(forum, "builds", by=ann)
    heard = await bed.hears(lambda: bed.server.say(forum, ann, "why?", topic=topic))
    assert spot(heard) == (str(topic.id), None, None)
    assert (heard.address.chat_kind, heard.answers_us) == (ChatKind.FORUM, False)


async def test_a_plain_message_in_a_topic_that_we_opened_does_not_answer_us(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    await bed.platform.send(bed.topic_part(bed.address(forum)))
    topic = next(iter(forum.topics))
    heard = await bed.hears(lambda: bed.server.say(forum, ann, "why?", topic=topic))
    assert spot(heard) == (str(topic), None, None)
    assert not heard.answers_us


async def test_a_real_answer_inside_a_topic(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    topic = bed.server.topic(forum, "builds", by=ann)
    brief = (await bed.sent(forum, topic=str(topic.id))).receipt.address
    heard = await bed.hears(lambda: bed.server.say(forum, ann, "why?", reply_to=int(brief.message or 0)))
    assert spot(heard) == (str(topic.id), brief.message, None)
    assert heard.answers_us


async def test_the_general_topic_is_none_however_it_is_numbered(bed: Bed) -> None:
    """B069: the key stays the same between 1 and none."""
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    async with bed.listening():
        bed.server.say(forum, ann, "plain")
        bed.server.say(forum, ann, "numbered", extra={"message_thread_id": 1, "is_topic_message": True})
        bed.server.say(forum, ann, "half numbered", extra={"message_thread_id": 1})
        heard = await bed.heard.until(3)
    assert [one.address.topic for one in heard] == [None, None, None]


async def test_an_answer_in_general_is_no_topic(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    brief = (await bed.sent(forum)).receipt.address
    heard = await bed.hears(lambda: bed.server.say(forum, ann, "why?", reply_to=int(brief.message or 0)))
    assert spot(heard) == (None, brief.message, None)


async def test_a_message_in_a_topic_of_a_private_chat(bed: Bed) -> None:
    bed.server.has_topics_enabled = True
    await bed.platform.connect()
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    topic = bed.server.topic(chat, "builds", by=ann)
    heard = await bed.hears(lambda: bed.server.say(chat, ann, "why?", topic=topic))
    assert spot(heard) == (str(topic.id), None, None)
    assert (heard.address.chat_kind, heard.mentioned) == (ChatKind.DM, True)


async def test_the_thread_of_a_supergroup_is_no_topic(bed: Bed) -> None:
    ann, bea = bed.server.add_user("Ann"), bed.server.add_user("Bea")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann, bea], bot="administrator")
    brief = (await bed.sent(group)).receipt.address
    first = await bed.hears(lambda: bed.server.say(group, ann, "why?", reply_to=int(brief.message or 0)))
    assert spot(first) == (None, brief.message, None)
    second = await bed.hears(lambda: bed.server.say(group, bea, "yes", reply_to=int(first.address.message or 0)))
    assert spot(second) == (None, first.address.message, brief.message)
    assert not second.answers_us


async def test_an_answer_from_another_topic_quotes_the_brief(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    here, there = bed.server.topic(forum, "here", by=ann), bed.server.topic(forum, "there", by=ann)
    brief = (await bed.sent(forum, topic=str(here.id))).receipt.address
    message = forum.messages[int(brief.message or 0)]
    heard = await bed.hears(lambda: bed.server.say(forum, ann, "about that", topic=there, external_reply=message))
    assert spot(heard) == (str(there.id), None, None)
    assert (heard.quoted, heard.answers_us) == ((brief.message,), True)


async def test_a_quote_from_another_chat_opens_nothing_of_that_chat(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    ops = bed.server.add_chat("supergroup", "Ops", members=[ann], bot="administrator")
    dev = bed.server.add_chat("supergroup", "Dev", members=[ann], bot="administrator")
    brief = (await bed.sent(ops)).receipt.address
    message = ops.messages[int(brief.message or 0)]
    heard = await bed.hears(lambda: bed.server.say(dev, ann, "look at that", external_reply=message))
    assert (heard.quoted, heard.answers_us, heard.address.root) == ((), False, None)


async def test_a_comment_under_a_channel_post_knows_the_post(bed: Bed) -> None:
    ann, bea = bed.server.add_user("Ann"), bed.server.add_user("Bea")
    group = bed.server.add_chat("supergroup", "Talk", members=[ann, bea], bot="administrator")
    channel = bed.server.add_chat("channel", "News", bot="administrator", linked=group)
    async with bed.listening():
        brief = (await bed.sent(channel)).receipt.address
        forward = next(message for message in group.messages.values() if message.get("is_automatic_forward"))
        comment = bed.server.say(group, ann, "why?", reply_to=forward)
        bed.server.say(group, bea, "yes, why?", reply_to=comment)
        first, second = await bed.heard.until(2)
    post = (str(channel.id), brief.message)
    assert (first.copied_root, first.address.root, first.thread) == (post, str(forward["message_id"]), None)
    assert (second.copied_root, second.address.root) == (post, str(comment["message_id"]))
    assert second.thread == str(forward["message_id"])
    assert bed.heard.texts == ["why?", "yes, why?"], "the forward itself is nobody's message"


async def test_a_post_that_a_person_forwards_is_an_ordinary_message(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Talk", members=[ann], bot="administrator")
    channel = bed.server.add_chat("channel", "News", bot="administrator")
    post, _ = bed.server.channel_post(channel, "3 builds failed")
    origin = {"type": "channel", "chat": channel.wire(), "message_id": post["message_id"], "date": post["date"]}
    async with bed.listening():
        forwarded = bed.server.say(group, ann, "3 builds failed", extra={"forward_origin": origin})
        bed.server.say(group, ann, "why?", reply_to=forwarded)
        heard = await bed.heard.until(3)
    assert [one.copied_root for one in heard] == [None, None, None]


# --- who it was ---------------------------------------------------------------------------------------------


async def test_an_anonymous_admin_is_the_group(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann], bot="administrator")
    heard = await bed.hears(lambda: bed.server.say(group, ann, "why?", sender_chat=group))
    assert heard.author == Author(id=str(group.id), name="Ops", is_bot=False)


async def test_a_channel_that_speaks_in_a_group_is_the_channel(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann], bot="administrator")
    channel = bed.server.add_chat("channel", "News", bot="administrator")
    message: dict[str, Any] = {}
    heard = await bed.hears(lambda: message.update(bed.server.say(group, ann, "why?", sender_chat=channel)))
    assert message["from"]["id"] == CHANNEL_BOT_ID
    assert heard.author == Author(id=str(channel.id), name="News", is_bot=False)


async def test_a_channel_post_of_a_person_is_the_channels(bed: Bed) -> None:
    channel = bed.server.add_chat("channel", "News", bot="administrator")
    heard = await bed.hears(lambda: bed.server.channel_post(channel, "hello"))
    assert heard.author == Author(id=str(channel.id), name="News", is_bot=False)
    assert (heard.address.chat_kind, heard.mentioned) == (ChatKind.CHANNEL, False)


async def test_our_own_channel_post_is_not_heard(bed: Bed) -> None:
    channel = bed.server.add_chat("channel", "News", bot="administrator")
    sent = await bed.sent(channel)
    async with bed.listening():
        bed.server.tell(channel, channel.messages[int(sent.receipt.address.message or 0)])
        bed.server.channel_post(channel, "a person's")
        await bed.heard.until(1)
        await bed.server.wait_read()
    assert bed.heard.texts == ["a person's"]


async def test_another_bot_is_marked_and_our_own_words_are_dropped(bed: Bed) -> None:
    other = bed.server.add_user("Other", is_bot=True)
    group = bed.server.add_chat("supergroup", "Ops", members=[other], bot="administrator")
    async with bed.listening():
        bed.server.say(group, bed.server.bot, "our own", deliver=True)
        bed.server.say(group, other, "beep", deliver=True)
        heard = await bed.heard.until(1)
        await bed.server.wait_read()
    assert [(one.text, one.author.is_bot) for one in heard] == [("beep", True)]


# --- what was said ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("@brief_bot why?", "why?"),
        ("@brief_bot, why?", "why?"),
        ("\U0001f525\U0001f525 @BRIEF_BOT why \U0001f525?", "\U0001f525\U0001f525 why \U0001f525?"),
        ("why @brief_bot?", "why?"),
        ("why did it fail, @brief_bot", "why did it fail,"),
        ("/cron@brief_bot list", "/cron list"),
        ("\U0001f468‍\U0001f469‍\U0001f467 a @brief_bot b @brief_bot c", "\U0001f468‍\U0001f469‍\U0001f467 a b c"),
    ],
)
async def test_the_mention_is_taken_out_wherever_it_stands(bed: Bed, said: str, text: str) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    heard = await bed.hears(lambda: bed.server.say(group, ann, said))
    assert (heard.text, heard.mentioned) == (text, True)


async def test_a_mention_by_name_counts(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    entities = [{"type": "text_mention", "offset": 3, "length": 5, "user": bed.server.bot.wire()}]
    heard = await bed.hears(lambda: bed.server.say(group, ann, "\U0001f525 Brief why?", entities=entities))
    assert (heard.text, heard.mentioned) == ("\U0001f525 why?", True)


async def test_a_mention_of_somebody_else_stays_and_counts_for_nothing(bed: Bed) -> None:
    ann = bed.server.add_user("Ann", username="brief_bot_fan")
    group = bed.server.add_chat("group", "Ops", members=[ann], bot="administrator")
    heard = await bed.hears(lambda: bed.server.say(group, ann, "@brief_bot_fan /cron@other_bot look"))
    assert (heard.text, heard.mentioned) == ("@brief_bot_fan /cron@other_bot look", False)


async def test_a_caption_is_what_was_said_about_a_picture(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    extra = {"photo": [{"file_id": "x"}], "caption": "is this the second one?"}
    heard = await bed.hears(lambda: bed.server.say(chat, ann, extra=extra))
    assert heard.text == "is this the second one?"


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"photo": [{"file_id": "x"}]}, "[photo]"),
        ({"voice": {"file_id": "x"}}, "[voice message]"),
        ({"document": {"file_id": "x", "file_name": "build.log"}}, "[document: build.log]"),
        ({"animation": {"file_id": "x"}, "document": {"file_id": "x"}}, "[animation]"),
        ({"sticker": {"emoji": "\U0001f44d"}}, "[sticker: \U0001f44d]"),
    ],
)
async def test_what_has_no_words_gets_a_word(bed: Bed, extra: dict[str, Any], text: str) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    assert (await bed.hears(lambda: bed.server.say(chat, ann, extra=extra))).text == text


async def test_an_edit_is_marked_and_keeps_its_message(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    message: dict[str, Any] = {}
    first = await bed.hears(lambda: message.update(bed.server.say(chat, ann, "why?")))
    edited = await bed.hears(lambda: bed.server.edit(message, "why did the second one fail?"))
    assert (first.is_edit, edited.is_edit) == (False, True)
    assert edited.address.message == first.address.message
    assert edited.text == "why did the second one fail?"


async def test_service_messages_are_nobodys_words(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann], bot="administrator")
    async with bed.listening():
        bed.server.service(group, ann, new_chat_members=[ann.wire()])
        bed.server.service(group, ann, pinned_message={"message_id": 2})
        bed.server.say(group, ann, "hello")
        await bed.heard.until(1)
    assert bed.heard.texts == ["hello"]


async def test_a_pressed_button_is_answered_and_says_nothing(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    await bed.sent(chat)
    async with bed.listening():
        query = bed.server.press(bed.server.posts()[0], ann, "x")
        await bed.server.wait_calls("answerCallbackQuery")
        await bed.server.wait_read()
    assert bed.asked("answerCallbackQuery") == [{"callback_query_id": query["id"]}]
    assert bed.heard.inbounds == []


# --- the promise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["private", "group", "supergroup", "forum", "topic", "opened topic"])
@pytest.mark.parametrize("way", ["quote", "plain"])
async def test_every_answer_carries_a_key_that_its_brief_has(bed: Bed, place: str, way: str) -> None:
    """The key of any answer is among the keys of the receipt, through the real wire in both directions."""
    bed.server.can_read_all_group_messages = True
    ann = bed.server.add_user("Ann")
    if place == "private":
        chat = bed.server.private(ann)
    else:
        kind = "forum" if "topic" in place else place
        chat = bed.server.add_chat(kind, "Ops", members=[ann], bot="administrator")
    landed, topic = [], None
    if place == "topic":
        topic = str(bed.server.topic(chat, "builds", by=ann).id)
    if place == "opened topic":
        opened = await bed.platform.send(bed.topic_part(bed.address(chat)))
        landed.append(Landed(kind=bed.topic_part(bed.address(chat)).kind, address=opened.receipt.address))  # type: ignore[union-attr]
        topic = landed[0].address.topic
    brief = await bed.sent(chat, topic=topic)
    landed.append(Landed(kind=bed.part(bed.address(chat)).kind, address=brief.receipt.address))
    message = int(brief.receipt.address.message or 0)
    heard = await bed.hears(
        lambda: bed.server.say(
            chat,
            ann,
            "why?",
            reply_to=message if way == "quote" else None,
            topic=None if topic is None else int(topic),
        )
    )
    rules = ChatRules(has_threads=False)
    keys = keys_for(landed, rules)
    first = candidates_for(heard, rules)[0].key
    assert first in (keys.thread if way == "quote" or place == "opened topic" else keys.flat)


async def test_times_are_the_platforms(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    bed.server.now = lambda: (bed.at + timedelta(hours=3)).timestamp()
    heard = await bed.hears(lambda: bed.server.say(chat, ann, "late"))
    assert heard.at == bed.at + timedelta(hours=3)
