"""What becomes of a brief on its way to Telegram, over the real SDK and a real socket."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from servers.telegram import TelegramServer
from telegrambed import BOT, Bed, telegram_bed

from delivery.model import (
    Address,
    CannotTell,
    ChatKind,
    InDoubt,
    NotSent,
    PartKind,
    Receipt,
    Rejected,
    Sent,
    Throttled,
)
from delivery.platforms.telegram import TelegramPlatform
from delivery.split import utf16_units


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    async with telegram_bed(tmp_path) as made:
        yield made


# --- what arrives -----------------------------------------------------------------------------------------


async def test_a_brief_in_a_private_chat_has_a_receipt_from_the_answer(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    sent = await bed.sent(chat)
    posted = bed.server.posts()[0]
    assert sent.degraded is None
    assert sent.receipt.address == Address(
        account="telegram",
        workspace=BOT,
        chat=str(chat.id),
        chat_kind=ChatKind.DM,
        message=str(posted["message_id"]),
    )
    assert sent.receipt.at == bed.at
    assert "text" not in sent.receipt.raw


async def test_a_formatted_brief_arrives_with_its_entities_and_without_link_previews(bed: Bed) -> None:
    group = bed.server.add_chat("group", "Ops")
    (rendered,) = bed.platform.render("**3 builds** failed, see [the log](https://ci.example/1) \U0001f525 `main`")
    result = await bed.platform.send(bed.part(bed.address(group), payload=rendered.payload))
    assert isinstance(result, Sent) and result.degraded is None
    posted = bed.server.posts()[0]
    assert posted["text"] == "3 builds failed, see the log \U0001f525 main"
    assert [entity["type"] for entity in posted["entities"]] == ["bold", "text_link", "code"]
    assert bed.asked("sendMessage")[0]["link_preview_options"] == '{"is_disabled": true}'


async def test_a_long_brief_arrives_in_parts_that_are_all_of_it(bed: Bed) -> None:
    group = bed.server.add_chat("group", "Ops")
    lines = [f"{number}. test_{number} failed \U0001f525" for number in range(900)]
    rendered = bed.platform.render("\n".join(lines))
    receipts = []
    for number, one in enumerate(rendered, start=1):
        result = await bed.platform.send(bed.part(bed.address(group), n=number, payload=one.payload))
        assert isinstance(result, Sent) and result.degraded is None
        receipts.append(result.receipt.address.message)
    texts = bed.texts()
    assert len(texts) > 1 and len(set(receipts)) == len(texts)
    assert all(utf16_units(text) <= 4096 for text in texts)
    assert [line for line in lines if not any(line in text for text in texts)] == []


async def test_a_channel_post_has_a_receipt(bed: Bed) -> None:
    channel = bed.server.add_chat("channel", "News", bot="administrator")
    sent = await bed.sent(channel)
    assert (sent.receipt.address.chat_kind, sent.degraded) == (ChatKind.CHANNEL, None)


async def test_an_answer_replies_to_the_question(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann])
    question = bed.server.say(group, ann, "why?", deliver=True)
    sent = await bed.sent(group, "because", root=str(question["message_id"]))
    assert sent.receipt.address.root == str(question["message_id"])
    assert bed.server.posts()[0]["reply_to_message"]["text"] == "why?"


async def test_an_answer_to_a_deleted_question_still_arrives_and_says_that_it_stands_alone(bed: Bed) -> None:
    group = bed.server.add_chat("group", "Ops")
    sent = await bed.sent(group, "because", root="4711")
    assert sent.receipt.address.root is None
    assert sent.degraded == "it stands alone: the message that it answers is not there any more"


# --- topics -----------------------------------------------------------------------------------------------


async def test_the_wire_carries_the_topic_and_so_does_the_receipt(bed: Bed) -> None:
    """B067, B064."""
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann])
    topic = bed.server.topic(forum, "builds", by=ann)
    sent = await bed.sent(forum, topic=str(topic.id))
    assert bed.asked("sendMessage")[0]["message_thread_id"] == str(topic.id)
    landed = sent.receipt.address
    assert (landed.topic, landed.root, landed.chat_kind, sent.degraded) == (str(topic.id), None, ChatKind.FORUM, None)


@pytest.mark.parametrize("topic", [None, "1", ""])
async def test_the_general_topic_is_posted_to_without_a_number(bed: Bed, topic: str | None) -> None:
    """B069."""
    forum = bed.server.add_chat("forum", "Ops")
    sent = await bed.sent(forum, topic=topic)
    assert "message_thread_id" not in bed.asked("sendMessage")[0]
    assert (sent.receipt.address.topic, sent.degraded) == (None, None)


async def test_a_post_never_lands_in_the_topic_where_somebody_spoke_last(bed: Bed) -> None:
    """B068."""
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    topic = bed.server.topic(forum, "chatter", by=ann)
    await bed.hears(lambda: bed.server.say(forum, ann, "hello", topic=topic))
    assert (await bed.sent(forum)).receipt.address.topic is None


async def test_a_private_chat_without_topics_never_carries_a_thread_number(bed: Bed) -> None:
    """R22."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    sent = await bed.sent(chat, topic="4905")
    assert "message_thread_id" not in bed.asked("sendMessage")[0]
    assert (sent.receipt.address.topic, sent.degraded) == (None, "it landed outside any topic, not in topic 4905")


async def test_a_topic_of_a_private_chat_is_posted_to(bed: Bed) -> None:
    bed.server.has_topics_enabled = True
    await bed.platform.connect()
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    topic = bed.server.topic(chat, "builds", by=ann)
    sent = await bed.sent(chat, topic=str(topic.id))
    assert (sent.receipt.address.topic, sent.degraded) == (str(topic.id), None)


async def test_a_thread_number_that_a_group_ignores_is_told(bed: Bed) -> None:
    group = bed.server.add_chat("supergroup", "Ops")
    sent = await bed.sent(group, topic="23")
    assert (sent.receipt.address.topic, sent.degraded) == (None, "it landed outside any topic, not in topic 23")


async def test_a_topic_that_the_platform_loses_in_silence_is_told(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann])
    topic = bed.server.topic(forum, "builds", by=ann)
    bed.server.fault("sendMessage", "lose_thread")
    sent = await bed.sent(forum, topic=str(topic.id))
    assert sent.receipt.address.topic is None
    assert sent.degraded == f"it landed outside any topic, not in topic {topic.id}"


async def test_a_deleted_topic_is_refused_with_a_way_out(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops")
    result = await bed.send(forum, topic="23")
    assert isinstance(result, Rejected) and not result.chat_is_gone
    assert result.reason.startswith(f"topic 23 is not in chat {forum.id}: name one that is there in the target")
    assert bed.texts() == []


async def test_a_closed_topic_is_refused_with_a_way_out(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann])
    topic = bed.server.topic(forum, "builds", by=ann)
    topic.is_closed = True
    result = await bed.send(forum, topic=str(topic.id))
    assert isinstance(result, Rejected)
    assert result.reason.startswith(f"topic {topic.id} of chat {forum.id} is closed: open it")


async def test_a_topic_is_opened_for_a_run_and_the_brief_goes_into_it(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops", bot="administrator")
    opening = bed.platform.opening(bed.address(forum), "build-health  2 March")
    assert opening is not None and opening.kind is PartKind.TOPIC
    result = await bed.platform.send(bed.topic_part(bed.address(forum), str(opening.payload["name"])))
    assert isinstance(result, Sent)
    topic = next(iter(forum.topics.values()))
    assert topic.name == "build-health 2 March"
    assert (result.receipt.address.topic, result.receipt.address.message) == (str(topic.id), str(topic.id))
    brief = await bed.sent(forum, topic=result.receipt.address.topic)
    assert (brief.receipt.address.topic, brief.receipt.address.root) == (str(topic.id), None)


async def test_a_topic_that_may_not_be_opened_is_refused_with_a_way_out(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops", bot="administrator", rights={"can_manage_topics": False})
    result = await bed.platform.send(bed.topic_part(bed.address(forum)))
    assert isinstance(result, Rejected)
    assert result.reason.startswith(f"the bot may not open topics in chat {forum.id}: let it manage topics there")


async def test_a_topic_in_doubt_is_found_by_what_telegram_told_of_it(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops", bot="administrator")
    part = bed.topic_part(bed.address(forum))
    async with bed.listening():
        bed.server.fault("createForumTopic", "cut_after")
        assert isinstance(await bed.platform.send(part), InDoubt)
        await bed.server.wait_read()
    found = await bed.platform.find(part)
    assert isinstance(found, Receipt)
    topic = next(iter(forum.topics))
    assert (found.address.topic, found.address.message) == (str(topic), str(topic))
    assert isinstance(await bed.platform.find(part), CannotTell), "the topic is claimed by the first"


async def test_a_topic_whose_opening_was_answered_is_never_taken_for_another_one(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops", bot="administrator")
    part = bed.topic_part(bed.address(forum))
    async with bed.listening():
        assert isinstance(await bed.platform.send(part), Sent)
        bed.server.fault("createForumTopic", "cut_before")
        assert isinstance(await bed.platform.send(part), InDoubt)
        await bed.server.wait_read()
    assert isinstance(await bed.platform.find(part), CannotTell)


async def test_somebody_elses_topic_of_that_name_is_not_ours(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    forum = bed.server.add_chat("forum", "Ops", members=[ann], bot="administrator")
    part = bed.topic_part(bed.address(forum))
    async with bed.listening():
        bed.server.topic(forum, "build-health", by=ann)
        await bed.server.wait_read()
    assert isinstance(await bed.platform.find(part), CannotTell)


async def test_a_message_in_doubt_cannot_be_asked_for(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    await bed.sent(chat)
    assert isinstance(await bed.platform.find(bed.part(bed.address(chat))), CannotTell)


# --- what may have arrived: by the phase, never by the name of an exception -----------------------------------


@pytest.mark.parametrize("kind", ["cut_before", "cut_after", "500", "502", "not_json", "zero_id"])
async def test_whatever_happens_after_the_first_byte_leaves_it_in_doubt(bed: Bed, kind: str) -> None:
    """B039, R16: nothing is sent twice, whether it had arrived or not."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendMessage", kind)
    result = await bed.send(chat)
    assert isinstance(result, InDoubt), result
    assert len(bed.asked("sendMessage")) == 1
    assert bed.texts() == (["3 builds failed"] if kind in ("cut_after", "not_json", "zero_id") else [])


async def test_an_answer_that_takes_too_long_leaves_it_in_doubt(bed: Bed) -> None:
    """B039."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    platform = bed.another(read_timeout=0.2)
    held = bed.server.fault("sendMessage", "hold")
    result = await platform.send(bed.part(bed.address(chat)))
    held.release()
    await platform.close()
    assert isinstance(result, InDoubt) and "ReadTimeout" in result.reason
    assert bed.texts() == ["3 builds failed"]


async def test_a_server_that_is_not_there_means_surely_not_sent(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    await bed.server.go_down()
    result = await bed.send(chat)
    assert isinstance(result, NotSent) and not result.account_is_down and "ConnectError" in result.reason
    await bed.server.come_back()
    await bed.sent(chat)
    assert bed.texts() == ["3 builds failed"]


async def test_a_name_that_does_not_resolve_means_surely_not_sent(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    platform = bed.another(base_url="http://telegram.invalid")
    result = await platform.send(bed.part(bed.address(chat)))
    await platform.close()
    assert isinstance(result, NotSent)


async def test_connections_that_died_while_idle_do_not_put_the_next_post_in_doubt(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    for text in ("one", "two"):
        bed.server.fault("sendMessage", "close")
        await bed.sent(chat, text)
        bed.server.drop_connections()
    await bed.sent(chat, "three")
    assert bed.texts() == ["one", "two", "three"]


async def test_a_cancelled_send_stays_cancelled(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    held = bed.server.fault("sendMessage", "hold")
    task = asyncio.create_task(bed.send(chat))
    await bed.server.wait_posts(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.release()
    await bed.sent(chat, "later")


async def test_after_close_nothing_is_called(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    await bed.platform.close()
    await bed.platform.close()
    assert isinstance(await bed.send(chat), NotSent)
    assert bed.asked("sendMessage") == []


# --- what is refused ----------------------------------------------------------------------------------------


async def test_too_many_requests_name_the_wait_and_nothing_is_retried(bed: Bed) -> None:
    """B059, B060, B041."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendMessage", "429", retry_after=37)
    assert await bed.send(chat) == Throttled(retry_after=37.0)
    assert len(bed.asked("sendMessage")) == 1 and bed.naps.taken == []


async def test_the_fourth_post_of_a_burst_is_throttled_and_the_first_three_stay_single(bed: Bed) -> None:
    """B041."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendMessage", "429", skip=2, retry_after=223)
    results = [await bed.send(chat, str(number)) for number in range(3)]
    assert results[2] == Throttled(retry_after=223.0)
    await bed.sent(chat, "2")
    assert bed.texts() == ["0", "1", "2"]


async def test_a_person_who_blocked_the_bot_is_gone(bed: Bed) -> None:
    """B058."""
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    bed.server.block(ann)
    result = await bed.send(chat)
    assert isinstance(result, Rejected) and result.chat_is_gone
    assert result.reason == "the person has blocked the bot (Telegram says: Forbidden: bot was blocked by the user)"


@pytest.mark.parametrize(("status", "words"), [("kicked", "was removed from"), ("left", "is not in")])
async def test_a_group_that_the_bot_is_out_of_is_gone(bed: Bed, status: str, words: str) -> None:
    """B058."""
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("supergroup", "Ops", members=[ann])
    bed.server.set_bot_status(group, status, by=ann)
    result = await bed.send(group)
    assert isinstance(result, Rejected) and result.chat_is_gone and words in result.reason


async def test_a_deactivated_person_is_gone(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    ann.is_deactivated = True
    result = await bed.send(chat)
    assert isinstance(result, Rejected) and result.chat_is_gone and "is no more" in result.reason


async def test_a_group_that_became_a_supergroup_names_its_new_id(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    group = bed.server.add_chat("group", "Ops", members=[ann])
    new = bed.server.migrate(group, by=ann)
    result = await bed.send(group)
    assert isinstance(result, Rejected)
    assert (result.moved_to, result.chat_is_gone) == (str(new.id), False)


async def test_an_unknown_chat_is_refused_with_a_way_out(bed: Bed) -> None:
    address = Address(account="telegram", workspace=BOT, chat="-100777", chat_kind=ChatKind.GROUP)
    result = await bed.platform.send(bed.part(address))
    assert isinstance(result, Rejected) and not result.chat_is_gone
    assert result.reason.startswith("Telegram knows no chat -100777 for this bot: add the bot there, or let the person")


@pytest.mark.parametrize(
    ("chat", "words"),
    [
        ({"type": "channel", "title": "News"}, "make it an administrator there"),
        ({"type": "supergroup", "title": "Ops", "bot": "restricted"}, "give it the right to send messages there"),
    ],
)
async def test_a_missing_right_is_named(bed: Bed, chat: dict[str, Any], words: str) -> None:
    result = await bed.send(bed.server.add_chat(**chat))
    assert isinstance(result, Rejected) and words in result.reason and not result.chat_is_gone


async def test_a_text_that_is_too_long_is_refused(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    result = await bed.send(chat, "x" * 4097)
    assert isinstance(result, Rejected) and "message is too long" in result.reason


async def test_formatting_that_telegram_refuses_costs_the_formatting_not_the_brief(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendMessage", "error", description="Bad Request: can't parse entities: out of range")
    payload = {"text": "fire", "entities": [{"type": "bold", "offset": 0, "length": 4}]}
    result = await bed.platform.send(bed.part(bed.address(chat), payload=payload))
    assert isinstance(result, Sent)
    assert result.degraded is not None and result.degraded.startswith("posted without formatting")
    assert [("entities" in message, message["text"]) for message in bed.server.posts()] == [(False, "fire")]


async def test_plain_text_after_refused_formatting_is_still_one_attempt(bed: Bed) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.fault("sendMessage", "error", description="Bad Request: can't parse entities: out of range")
    bed.server.fault("sendMessage", "cut_after")
    payload = {"text": "fire", "entities": [{"type": "bold", "offset": 0, "length": 4}]}
    result = await bed.platform.send(bed.part(bed.address(chat), payload=payload))
    assert isinstance(result, InDoubt)
    assert bed.texts() == ["fire"]


async def test_a_revoked_token_holds_the_account(bed: Bed) -> None:
    """B105."""
    chat = bed.server.private(bed.server.add_user("Ann"))
    bed.server.token = f"{BOT}:new"
    result = await bed.send(chat)
    assert isinstance(result, NotSent) and result.account_is_down
    assert "Unauthorized" in result.reason


async def test_an_old_server_that_knows_no_topics_does_not_take_the_account_down(bed: Bed) -> None:
    forum = bed.server.add_chat("forum", "Ops", bot="administrator")
    bed.server.fault("createForumTopic", "error", code=404, description="Not Found: method not found")
    result = await bed.platform.send(bed.topic_part(bed.address(forum)))
    assert isinstance(result, Rejected) and not result.chat_is_gone


async def test_the_token_is_in_no_log_and_no_reason(
    bed: Bed, caplog: pytest.LogCaptureFixture, server_down: TelegramPlatform
) -> None:
    chat = bed.server.private(bed.server.add_user("Ann"))
    caplog.set_level(logging.INFO)
    await bed.sent(chat)
    result = await server_down.send(bed.part(bed.address(chat)))
    assert isinstance(result, NotSent)
    logged = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]  # the server's own
    assert not any(bed.server.token in message for message in [*logged, result.reason])


@pytest.fixture
async def server_down(bed: Bed) -> AsyncIterator[TelegramPlatform]:
    async with TelegramServer() as other:
        url = other.url
    platform = bed.another(base_url=url)
    yield platform
    await platform.close()
