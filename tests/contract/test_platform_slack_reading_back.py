"""What is read back of what people wrote while nobody listened. The real SDK over loopback."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from slack_parts.rig import OPS, Rig, slack_rig

from delivery.model import ChatKind
from delivery.platforms.slack_time import at_of
from delivery.ports import AccountDown


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with slack_rig() as made:
        await made.platform.connect()
        await made.listen()
        yield made


def actions(caplog) -> set[str]:
    return {getattr(one, "action", None) for one in caplog.records}


async def silent_rig_with(rig: Rig, *texts: str) -> list[str]:
    await rig.stop_listening()
    return [rig.server.say("#ops", "kim", text) for text in texts]


async def test_what_was_written_meanwhile_is_read_oldest_first(rig):
    before = rig.server.say("#ops", "kim", "heard before")
    await rig.said(before)
    stamps = await silent_rig_with(rig, "one", "<@U0BOT> two", "three")
    rig.server.bot_says("#ops", "four")
    await rig.platform.send(rig.part())
    rig.heard.clear()
    rig.server.api.page_cap = 2
    await rig.platform.catch_up(OPS, datetime.fromtimestamp(float(before), UTC), rig.hear)
    assert [one.text for one in rig.heard] == ["one", "two", "three", "four"]
    assert [one.address.message for one in rig.heard[:3]] == stamps
    assert [one.mentioned for one in rig.heard] == [False, True, False, False]
    assert {one.address.chat_kind for one in rig.heard} == {ChatKind.CHANNEL}


async def test_a_thread_is_read_back_without_its_root(rig):
    root = (await rig.platform.send(rig.part())).receipt.address
    await rig.stop_listening()
    ts = rig.server.say("#ops", "kim", "why?", thread_ts=root.message)
    rig.server.say("#ops", "kim", "elsewhere")
    at = datetime.fromtimestamp(float(root.message), UTC)
    await rig.platform.catch_up(replace(OPS, root=root.message), at, rig.hear)
    [heard] = rig.heard
    assert (heard.address.message, heard.address.root, heard.answers_us) == (ts, root.message, True)


async def test_after_a_429_it_goes_on_when_slack_allows_it_and_sends_are_not_held_up(rig, caplog):
    """B059: the wait is Slack's, and costs nothing that was written."""
    caplog.set_level(logging.INFO)
    await silent_rig_with(rig, "one", "two", "three")
    rig.server.api.page_cap = 1
    rig.server.fault("conversations.history", "429", skip=2, retry_after=37)
    reading = asyncio.create_task(rig.platform.catch_up(OPS, datetime.now(UTC) - timedelta(minutes=1), rig.hear))
    await rig.server.until(lambda: len(rig.server.calls_to("conversations.history")) == 3)
    await rig.pass_time(36)
    assert (len(rig.server.calls_to("conversations.history")), rig.heard) == (3, [])
    assert (await rig.platform.send(rig.part())).receipt.address.chat == OPS.chat
    await rig.pass_time(2)
    await asyncio.wait_for(reading, 5)
    assert [one.text for one in rig.heard] == ["one", "two", "three"]
    assert "catch_up_waits" in actions(caplog)
    assert "catch_up_incomplete" not in actions(caplog)


async def test_an_app_that_may_read_once_a_minute_reads_its_places_one_a_minute(rig, caplog):
    [root] = await silent_rig_with(rig, "flat")
    rig.server.say("#ops", "kim", "in the thread", thread_ts=root)
    since = at_of(root) - timedelta(minutes=1)
    rig.server.fault("conversations.replies", "429", retry_after=60)

    async def read_all() -> None:
        for place in (OPS, replace(OPS, root=root), OPS):
            await rig.platform.catch_up(place, since, rig.hear)

    reading = asyncio.create_task(read_all())
    await rig.server.until(lambda: rig.server.calls_to("conversations.replies"))
    await rig.pass_time(55)
    assert (len(rig.server.calls_to("conversations.replies")), len(rig.heard)) == (1, 1)
    await rig.pass_time(10)
    await asyncio.wait_for(reading, 5)
    assert [one.text for one in rig.heard] == ["flat", "flat", "in the thread", "flat"]
    assert "catch_up_incomplete" not in actions(caplog)


async def test_a_place_that_slack_lets_nobody_read_for_an_hour_is_given_up_and_said(rig, caplog):
    await silent_rig_with(rig, "one")
    rig.server.fault("conversations.history", "429", times=None, retry_after=600)
    reading = asyncio.create_task(rig.platform.catch_up(OPS, datetime.now(UTC) - timedelta(minutes=1), rig.hear))
    for n in range(1, 7):
        await rig.server.until(lambda n=n: len(rig.server.calls_to("conversations.history")) == n)
        await rig.settle()
        await rig.pass_time(600, step=100)
    await asyncio.wait_for(reading, 5)
    assert len(rig.server.calls_to("conversations.history")) in (6, 7)
    assert rig.heard == []
    assert "catch_up_incomplete" in actions(caplog)


async def test_a_wait_longer_than_an_hour_is_not_begun(rig, caplog):
    await silent_rig_with(rig, "one")
    rig.server.fault("conversations.history", "429", retry_after=3_700)
    await rig.platform.catch_up(OPS, datetime.now(UTC) - timedelta(minutes=1), rig.hear)
    assert "catch_up_incomplete" in actions(caplog)


@pytest.mark.parametrize("trouble", ["http_500_before", "truncated"])
async def test_trouble_that_passes_costs_nothing_that_was_written(rig, caplog, trouble):
    await silent_rig_with(rig, "one")
    rig.server.fault("conversations.history", trouble, times=3)
    reading = asyncio.create_task(rig.platform.catch_up(OPS, datetime.now(UTC) - timedelta(minutes=1), rig.hear))
    for n, seconds in enumerate((5, 30, 120), start=1):
        await rig.server.until(lambda n=n: len(rig.server.calls_to("conversations.history")) == n)
        await asyncio.sleep(0.02)
        await rig.pass_time(seconds + 1)
    await asyncio.wait_for(reading, 5)
    assert [one.text for one in rig.heard] == ["one"]


async def test_a_login_that_is_refused_while_reading_back_takes_the_account_down_at_once(rig):
    rig.server.fault("conversations.history", "error", code="token_revoked")
    with pytest.raises(AccountDown):
        await rig.platform.catch_up(OPS, datetime.now(UTC), rig.hear)


async def test_an_edit_made_meanwhile_is_read_as_an_edit(rig):
    old = rig.server.say("#ops", "kim", "old")
    untouched = rig.server.say("#ops", "kim", "untouched")
    root = rig.server.say("#ops", "kim", "root")
    answer = rig.server.say("#ops", "kim", "answer", thread_ts=root)
    await rig.said(old, untouched, root, answer)
    rig.heard.clear()
    await rig.stop_listening()
    rig.server.edit("#ops", old, "old, but better")
    rig.server.edit("#ops", answer, "a better answer")
    new = rig.server.say("#ops", "kim", "new")
    for place in (OPS, replace(OPS, root=root)):
        await rig.platform.catch_up(place, at_of(answer), rig.hear)
    told = [(one.address.message, one.text, one.is_edit) for one in rig.heard]
    assert told == [(old, "old, but better", True), (new, "new", False), (answer, "a better answer", True)]


async def test_for_edits_alone_no_further_page_is_asked_for(rig):
    stamps = [rig.server.say("#ops", "kim", str(n)) for n in range(6)]
    await rig.said(*stamps)
    rig.server.api.page_cap = 2
    await rig.platform.catch_up(OPS, at_of(stamps[-1]), rig.hear)
    assert len(rig.server.calls_to("conversations.history")) == 1


async def test_many_places_are_read_within_slacks_rate(rig):
    await silent_rig_with(rig)
    since = datetime.now(UTC)

    async def read_all() -> None:
        for _ in range(90):
            await rig.platform.catch_up(OPS, since, rig.hear)

    reading = asyncio.create_task(read_all())
    counts = []
    for _ in range(3):
        await rig.server.until(lambda: len(rig.server.calls_to("conversations.history")) in (40, 80, 90))
        await rig.settle()
        counts.append(len(rig.server.calls_to("conversations.history")))
        await rig.pass_time(61)
    await reading
    assert counts == [40, 80, 90]


async def test_what_cannot_be_stored_ends_the_reading(rig, caplog):
    await silent_rig_with(rig, "one", "two", "three")
    rig.refuses = lambda inbound: inbound.text == "two"
    await rig.platform.catch_up(OPS, datetime.now(UTC) - timedelta(minutes=1), rig.hear)
    assert [one.text for one in rig.heard] == ["one"]
    assert "catch_up_not_stored" in actions(caplog)


async def test_a_channel_that_cannot_be_read_is_logged_and_left(rig, caplog):
    rig.server.scopes.discard("channels:history")
    await rig.platform.catch_up(OPS, datetime.now(UTC) - timedelta(minutes=1), rig.hear)
    assert rig.heard == []
    assert "catch_up_incomplete" in actions(caplog)
