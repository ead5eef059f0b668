"""Nothing that people write is lost: kills, a full disk, outages, a second poller, a webhook, poison."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from telegrambed import Bed, Heard, telegram_bed

from delivery.model import Inbound
from delivery.ports import AccountDown


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    async with telegram_bed(tmp_path) as made:
        yield made


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(getattr(record, "action", "")) for record in caplog.records if hasattr(record, "action")]


async def polls(bed: Bed, count: int) -> None:
    await bed.server.changes.until(lambda: len(bed.asked("getUpdates")) >= count, 10)


async def test_nothing_is_confirmed_before_it_is_stored(bed: Bed) -> None:
    """The process dies while it stores the first of three: the next one hears all three."""
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    for text in ("one", "two", "three"):
        bed.server.say(chat, ann, text)
    storing = asyncio.Event()

    async def hang(inbound: Inbound) -> None:
        storing.set()
        await asyncio.Event().wait()

    dying = asyncio.create_task(bed.platform.listen(hang))
    await storing.wait()
    assert len(bed.server.updates.pending) == 3
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying
    await bed.platform.close()
    again = bed.another()
    async with bed.listening(again):
        await bed.heard.until(3)
        await bed.server.wait_read()
    await again.close()
    assert bed.heard.texts == ["one", "two", "three"]


async def test_a_death_between_two_messages_repeats_what_was_not_confirmed_and_loses_nothing(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    for text in ("one", "two", "three"):
        bed.server.say(chat, ann, text)
    stored: list[str] = []
    at_second = asyncio.Event()

    async def store(inbound: Inbound) -> None:
        if inbound.text == "two":
            at_second.set()
            await asyncio.Event().wait()
        stored.append(inbound.text)

    dying = asyncio.create_task(bed.platform.listen(store))
    await at_second.wait()
    dying.cancel()
    await asyncio.wait((dying,))
    again = bed.another()
    async with bed.listening(again):
        await bed.heard.until(3)
        await bed.server.wait_read()
    await again.close()
    assert stored == ["one"]
    assert bed.heard.texts == ["one", "two", "three"]


async def test_what_cannot_be_stored_is_taken_again_in_order_and_not_confirmed(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    bed.heard.fails = 2
    async with bed.listening():
        bed.server.say(chat, ann, "one")
        bed.server.say(chat, ann, "two")
        for count in (1, 2):
            await bed.naps.until(count)
            assert [update["message"]["text"] for update in bed.server.updates.pending] == ["one", "two"]
            bed.naps.wake()
        await bed.heard.until(2)
        await bed.server.wait_read()
    assert bed.naps.taken == [1.0, 2.0]
    assert bed.heard.texts == ["one", "two"]
    assert actions(caplog).count("inbound_not_stored") == 2
    assert "no space left" not in caplog.text


async def test_an_update_that_nobody_can_read_does_not_stop_the_others(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    poison: list[dict[str, Any]] = [
        {"message": {"message_id": 5, "chat": {"id": "x"}, "text": "a secret"}},
        {"message": {"message_id": 6, "date": 1, "chat": {"id": 7, "type": "holodeck"}, "text": "a secret"}},
        {"message": None},
        {"my_chat_member": {"chat": chat.wire()}},
        {"something_new": {"id": 1}},
        {"edited_message": []},
        {"message": {"message_id": 8, "date": "yesterday", "chat": chat.wire(), "text": "a secret", "entities": [1]}},
    ]
    for update in poison:
        (kind, body), *_ = update.items()
        bed.server.updates.allowed = None
        bed.server.updates.add(kind, body)
    bed.server.say(chat, ann, "hello")
    async with bed.listening():
        await bed.heard.until(1)
        await bed.server.wait_read()
    assert bed.heard.texts == ["hello"]
    assert actions(caplog).count("update_unreadable") == 6
    assert "a secret" not in caplog.text


async def test_a_second_poller_is_told_backed_off_and_sends_go_on(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """R37."""
    caplog.set_level(logging.INFO)
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    other = bed.another()
    theirs = Heard()
    async with bed.listening() as ours:
        rival = asyncio.create_task(other.listen(theirs.hear))
        await bed.naps.until(1)
        assert bed.platform.trouble == "another program polls this bot: stop it, or give it a bot of its own"
        await bed.sent(chat)
        rival.cancel()
        await asyncio.wait((rival,))
        bed.naps.wake()
        bed.server.say(chat, ann, "still there?")
        await bed.heard.until(1)
        assert not ours.done()
    await other.close()
    assert bed.texts() == ["3 builds failed"]
    assert bed.heard.texts == ["still there?"]
    assert [action for action in actions(caplog) if action.startswith(("another", "polling"))] == [
        "another_poller",
        "polling_resumed",
    ]


async def test_a_long_conflict_waits_longer_each_time_and_is_logged_once(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    """R37."""
    words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
    bed.server.fault("getUpdates", "error", times=4, code=409, description=words)
    async with bed.listening():
        for count in range(1, 5):
            await bed.naps.until(count)
            bed.naps.wake()
        await polls(bed, 5)
    assert bed.naps.taken == [1.0, 2.0, 4.0, 8.0]
    assert actions(caplog).count("another_poller") == 1


async def test_a_webhook_is_taken_down_without_losing_what_waits(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    bed.server.say(chat, ann, "before")
    bed.server.updates.webhook_url = "https://bot.example/hook"
    async with bed.listening():
        await bed.naps.until(1)
        bed.naps.wake()
        await bed.heard.until(1)
    assert bed.server.updates.webhook_url == ""
    assert bed.heard.texts == ["before"]
    assert "webhook_dropped" in actions(caplog)


@pytest.mark.parametrize("kind", ["cut", "500", "502"])
async def test_an_outage_ends_and_what_was_said_meanwhile_is_heard(bed: Bed, kind: str) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    async with bed.listening():
        bed.server.outage(kind)
        bed.server.say(chat, ann, "hello?")
        await bed.naps.until(1)
        assert bed.platform.trouble is not None
        bed.server.outage(None)
        bed.naps.wake()
        await bed.heard.until(1)
        await bed.server.wait_read()
        assert bed.platform.trouble is None
    assert bed.heard.texts == ["hello?"]


async def test_a_server_that_went_away_is_found_again(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    async with bed.listening():
        await bed.server.go_down()
        await bed.naps.until(1)
        await bed.server.come_back()
        bed.server.say(chat, ann, "hello?")
        bed.naps.wake()
        await bed.heard.until(1)
    assert bed.heard.texts == ["hello?"]


async def test_a_flood_wait_of_the_poll_is_kept(bed: Bed) -> None:
    bed.server.fault("getUpdates", "429", retry_after=37)
    async with bed.listening():
        await bed.naps.until(1)
    assert bed.naps.taken == [37.0]


async def test_a_revoked_token_ends_listening(bed: Bed) -> None:
    """B105."""
    async with bed.listening() as task:
        bed.server.token = "7000000001:new"
        bed.server.drop_connections()
        await bed.naps.until(1)
        bed.naps.wake()
        with pytest.raises(AccountDown) as down:
            await task
    assert down.value.reason.startswith("Telegram refused the token of account telegram (Unauthorized)")
    async with bed.listening() as task:
        with pytest.raises(AccountDown):
            await task


async def test_a_gap_of_more_than_a_day_is_said(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    async with bed.listening():
        bed.server.say(chat, ann, "before")
        await bed.heard.until(1)
        await bed.server.wait_read()
        bed.server.say(chat, ann, "meanwhile")
        await bed.heard.until(2)
        bed.at += timedelta(hours=25)
        bed.server.say(chat, ann, "after")
        await bed.heard.until(3)
    assert actions(caplog).count("updates_lost") == 1


async def test_only_the_kinds_that_are_used_are_asked_for(bed: Bed) -> None:
    async with bed.listening():
        pass
    assert bed.asked("getUpdates")[0]["allowed_updates"] == (
        '["message", "edited_message", "channel_post", "edited_channel_post", "my_chat_member", "callback_query"]'
    )


async def test_listening_twice_is_an_error(bed: Bed) -> None:
    async with bed.listening():
        with pytest.raises(RuntimeError, match="is listened to already"):
            await bed.platform.listen(bed.heard.hear)


async def test_a_redelivered_update_is_handed_on_as_the_same_message(bed: Bed) -> None:
    ann = bed.server.add_user("Ann")
    chat = bed.server.private(ann)
    async with bed.listening():
        bed.server.say(chat, ann, "hello")
        await bed.heard.until(1)
        update = bed.server.updates.everything[-1]
        bed.server.redeliver(update, update_id=update["update_id"] + 7)
        await bed.heard.until(2)
    first, second = bed.heard.inbounds
    assert first == second
