"""What becomes of a brief that is posted to Slack, whatever happens on the way. The real SDK over loopback."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from servers.slack import SlackServer
from slack_parts.rig import OPS, Rig, slack_rig

from delivery.model import (
    Absent,
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
from delivery.ports import AccountDown

NEVER = "1700000000.000100"
FDS = Path("/proc/self/fd")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with slack_rig() as made:
        await made.platform.connect()
        yield made


# --- the login ----------------------------------------------------------------------------------------


async def test_connecting_names_the_workspace(rig):
    assert await rig.platform.connect() == "T0TEAM"
    assert rig.platform.workspace == "T0TEAM"
    assert "chat:write" in rig.platform.scopes


async def test_an_org_wide_install_is_named_by_its_organisation(rig):
    rig.server.world.enterprise = "E0ORG"
    assert await rig.platform.connect() == "E0ORG"


async def test_a_bad_token_takes_the_account_down_with_a_sentence_that_does_not_show_it():
    async with slack_rig(bot_token="xoxb-wrong-secret") as rig:
        with pytest.raises(AccountDown) as down:
            await rig.platform.connect()
    assert "check that it is the right one" in down.value.reason
    assert "secret" not in down.value.reason


async def test_a_network_that_is_down_takes_the_account_down():
    async with SlackServer() as server:
        url = server.api_url
    async with slack_rig(base_url=url) as rig:
        with pytest.raises(AccountDown, match="no connection to"):
            await rig.platform.connect()


@pytest.mark.parametrize("kind", ["429", "http_500_before", "html", "truncated", "cut_before"])
async def test_a_login_that_gets_no_clear_answer_is_down_for_now(rig, kind):
    rig.server.fault("auth.test", kind)
    with pytest.raises(AccountDown):
        await rig.platform.connect()
    assert await rig.platform.connect() == "T0TEAM"


# --- a post that arrives ------------------------------------------------------------------------------


async def test_the_receipt_says_where_it_landed(rig):
    part = rig.part(marker="m-1")
    sent = await rig.platform.send(part)
    [post] = rig.server.posts("#ops")
    assert sent == Sent(receipt=sent.receipt)
    assert sent.receipt.address == replace(OPS, message=post.ts)
    assert abs(sent.receipt.at - datetime.now(UTC)) < timedelta(minutes=1)
    assert post.metadata == {"event_type": "hermes_cron_part", "event_payload": {"id": "m-1"}}


async def test_the_receipt_keeps_no_text(rig):
    sent = await rig.platform.send(rig.part("a secret brief"))
    assert "secret" not in str(sent.receipt.raw)


async def test_no_link_is_unfurled(rig):
    await rig.platform.send(rig.part("see https://example.com/"))
    [call] = rig.server.calls_to("chat.postMessage")
    assert (call.args["unfurl_links"], call.args["unfurl_media"]) == (False, False)


async def test_an_answer_in_a_thread_lands_there(rig):
    root = rig.server.say("#ops", "kim", "why?")
    sent = await rig.platform.send(rig.part(to=replace(OPS, root=root)))
    assert sent.degraded is None
    assert sent.receipt.address.root == root


async def test_a_first_answer_to_our_own_post_uses_the_stored_timestamp(rig):
    first = await rig.platform.send(rig.part())
    assert first.receipt.address.root is None
    second = await rig.platform.send(rig.part(to=replace(OPS, root=first.receipt.address.message)))
    assert second.receipt.address.root == first.receipt.address.message


async def test_a_thread_that_is_gone_is_reported_since_the_brief_lands_at_top_level(rig):
    sent = await rig.platform.send(rig.part(to=replace(OPS, root=NEVER)))
    assert sent.receipt.address.root is None
    assert f"posted at top level: Slack did not take it into the thread {NEVER}" in sent.degraded


@pytest.mark.parametrize("root", ["1776825190.6816", "1776825190", "last one"])
async def test_a_thread_that_is_no_timestamp_is_refused_before_slack_loses_the_message(rig, root):
    result = await rig.platform.send(rig.part(to=replace(OPS, root=root)))
    assert isinstance(result, Rejected)
    assert "six decimals" in result.reason
    assert rig.server.calls_to("chat.postMessage") == []


async def test_a_channel_without_threads_gets_it_at_top_level(rig):
    root = rig.server.say("#ops", "kim", "root")
    rig.server.world.channel("#ops").refusal = "restricted_action_non_threadable_channel"
    sent = await rig.platform.send(rig.part(to=replace(OPS, root=root)))
    assert sent.receipt.address.root is None
    assert sent.degraded is not None
    assert len(rig.server.posts("#ops")) == 1


async def test_a_channel_of_threads_only_says_so(rig):
    rig.server.world.channel("#ops").refusal = "restricted_action_thread_only_channel"
    result = await rig.platform.send(rig.part())
    assert result == Rejected(reason=result.reason)
    assert "name a thread as the target" in result.reason


async def test_a_long_brief_arrives_whole_in_parts_that_slack_takes(rig):
    items = [f"- build {n}: " + "the reason is long & <odd> " * 8 for n in range(150)]
    rendered = rig.platform.render("\n".join(items))
    for one in rendered:
        assert isinstance(await rig.platform.send(replace(rig.part(), payload=one.payload)), Sent)
    posts = rig.server.posts("#ops")
    assert len(rendered) > 1
    assert len(posts) == len(rendered)
    written = "\n".join(post.blocks[0]["text"] for post in posts)
    assert [n for n in range(150) if f"build {n}:" not in written] == []


async def test_a_thread_is_opened_by_a_header_that_pings_nobody(rig):
    opening = rig.platform.opening(OPS, "<!channel> build-health & more")
    sent = await rig.platform.send(replace(rig.part(), kind=opening.kind, payload=opening.payload))
    [post] = rig.server.posts("#ops")
    assert (opening.kind, opening.text) == (PartKind.HEADER, "<!channel> build-health & more")
    assert post.text == "&lt;!channel&gt; build-health &amp; more"
    assert post.blocks[0]["text"]["text"] == "<!channel> build-health & more"
    assert sent.receipt.address.message == post.ts


async def test_a_very_long_title_still_opens_a_thread(rig):
    opening = rig.platform.opening(OPS, "nightly " * 60)
    sent = await rig.platform.send(replace(rig.part(), kind=opening.kind, payload=opening.payload))
    assert isinstance(sent, Sent)


async def test_a_target_that_is_a_thread_needs_no_header(rig):
    assert rig.platform.opening(replace(OPS, root=NEVER), "build-health") is None


async def test_a_message_of_ours_can_be_taken_back(rig):
    sent = await rig.platform.send(rig.part())
    assert await rig.platform.retract(sent.receipt)
    assert rig.server.posts() == []
    assert await rig.platform.retract(sent.receipt), "what is gone is gone"


async def test_what_somebody_else_wrote_cannot_be_taken_back(rig):
    ts = rig.server.say("#ops", "kim", "mine")
    at = datetime.now(UTC)
    assert not await rig.platform.retract(Receipt(address=replace(OPS, message=ts), at=at))


# --- a post that does not, or of which nobody knows -------------------------------------------------


async def test_a_refused_connection_is_surely_not_sent(rig):
    await rig.server.stop()
    result = await rig.platform.send(rig.part())
    assert isinstance(result, NotSent)
    assert not result.account_is_down
    await rig.server.start()
    assert rig.server.posts() == []


async def test_a_name_that_cannot_be_found_is_surely_not_sent():
    async with slack_rig(base_url="http://slack.invalid/api/") as rig:
        result = await rig.platform.send(rig.part())
    assert isinstance(result, NotSent)
    assert "cannot be found" in result.reason


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("cut_before", 0),
        ("cut_after", 1),
        ("truncated", 1),
        ("html", 1),
        ("http_500_before", 0),
        ("http_500_after", 1),
    ],
)
async def test_without_a_clear_answer_it_is_in_doubt_and_never_sent_twice(rig, kind, kept):
    rig.server.fault("chat.postMessage", kind)
    result = await rig.platform.send(rig.part())
    assert isinstance(result, InDoubt)
    assert (len(rig.server.posts()), len(rig.server.calls_to("chat.postMessage"))) == (kept, 1)


@pytest.mark.parametrize("outage", ["cut", "http_503"])
async def test_an_outage_in_the_middle_of_a_request_is_in_doubt(rig, outage):
    rig.server.outage(outage)
    assert isinstance(await rig.platform.send(rig.part()), InDoubt)


async def test_an_answer_that_never_comes_is_in_doubt(rig, monkeypatch):
    monkeypatch.setattr("delivery.platforms.slack.REQUEST_TIMEOUT", 0.2)
    rig.server.fault("chat.postMessage", "slow", seconds=5)
    result = await rig.platform.send(rig.part())
    assert isinstance(result, InDoubt)
    assert "no answer within" in result.reason
    assert len(rig.server.posts()) == 1


@pytest.mark.parametrize("code", ["fatal_error", "internal_error", "service_unavailable"])
async def test_an_error_after_which_slack_may_have_posted_is_in_doubt(rig, code):
    rig.server.fault("chat.postMessage", "error_after", code=code)
    assert isinstance(await rig.platform.send(rig.part()), InDoubt)
    assert len(rig.server.posts()) == 1


async def test_too_often_waits_as_long_as_slack_says(rig):
    rig.server.fault("chat.postMessage", "429", retry_after=223)
    assert await rig.platform.send(rig.part()) == Throttled(retry_after=223.0)
    assert rig.server.posts() == []


async def test_too_often_may_also_come_as_an_error_code(rig):
    rig.server.fault("chat.postMessage", "error", code="ratelimited")
    assert await rig.platform.send(rig.part()) == Throttled(retry_after=30.0)


@pytest.mark.parametrize(
    "code", ["invalid_auth", "token_revoked", "account_inactive", "not_authed", "token_expired", "no_permission"]
)
async def test_a_login_that_is_refused_holds_the_brief(rig, code):
    rig.server.fault("chat.postMessage", "error", code=code)
    result = await rig.platform.send(rig.part())
    assert isinstance(result, NotSent)
    assert result.account_is_down
    assert code in result.reason


async def test_a_missing_scope_names_it(rig):
    rig.server.scopes.discard("chat:write")
    result = await rig.platform.send(rig.part())
    assert isinstance(result, NotSent)
    assert result.account_is_down
    assert "chat:write" in result.reason


@pytest.mark.parametrize(
    ("code", "is_gone"),
    [
        ("channel_not_found", True),
        ("is_archived", True),
        ("not_in_channel", False),
        ("msg_too_long", False),
        ("restricted_action", False),
        ("restricted_action_read_only_channel", False),
        ("invalid_blocks", False),
        ("a_code_of_next_year", False),
    ],
)
async def test_what_slack_refuses_for_good_is_rejected(rig, code, is_gone):
    rig.server.fault("chat.postMessage", "error", code=code)
    result = await rig.platform.send(rig.part())
    assert isinstance(result, Rejected)
    assert result.chat_is_gone is is_gone
    assert code in result.reason


async def test_a_workspace_that_is_being_moved_is_tried_again(rig):
    rig.server.fault("chat.postMessage", "error", code="team_added_to_org")
    assert isinstance(await rig.platform.send(rig.part()), NotSent)


async def test_a_channel_that_was_archived_takes_nothing_more(rig):
    rig.server.world.channel("#ops").is_archived = True
    result = await rig.platform.send(rig.part())
    assert result == Rejected(reason="the channel is archived (is_archived)", chat_is_gone=True)


async def test_neither_texts_nor_tokens_are_logged(rig, caplog):
    caplog.set_level(logging.DEBUG)
    rig.server.fault("chat.postMessage", "truncated")
    await rig.platform.send(rig.part("a confidential brief"))
    await rig.platform.send(rig.part("a confidential brief"))
    assert "confidential" not in caplog.text
    assert rig.server.bot_token not in caplog.text


# --- asking for it again --------------------------------------------------------------------------------


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_post_in_doubt_is_found_by_its_marker(rig, in_thread):
    place = replace(OPS, root=rig.server.say("#ops", "kim", "root")) if in_thread else OPS
    await rig.platform.send(rig.part("another", to=place))
    rig.server.fault("chat.postMessage", "cut_after")
    part = rig.part(to=place)
    assert isinstance(await rig.platform.send(part), InDoubt)
    found = await rig.platform.find(part)
    assert isinstance(found, Receipt)
    assert found.address == replace(place, message=rig.server.posts("#ops")[-1].ts)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_post_that_never_arrived_is_absent(rig, in_thread):
    place = replace(OPS, root=rig.server.say("#ops", "kim", "root")) if in_thread else OPS
    await rig.platform.send(rig.part("another", to=place))
    rig.server.fault("chat.postMessage", "cut_before")
    part = rig.part(to=place)
    await rig.platform.send(part)
    assert await rig.platform.find(part) == Absent()


async def test_a_post_that_slack_put_at_top_level_for_want_of_its_thread_is_found(rig):
    rig.server.fault("chat.postMessage", "cut_after")
    part = rig.part(to=replace(OPS, root=NEVER))
    await rig.platform.send(part)
    found = await rig.platform.find(part)
    assert found.address == replace(OPS, message=rig.server.posts("#ops")[-1].ts)


async def test_a_post_in_a_channel_without_threads_is_found(rig):
    root = rig.server.say("#ops", "kim", "root")
    rig.server.world.channel("#ops").refusal = "restricted_action_non_threadable_channel"
    rig.server.fault("chat.postMessage", "cut_after", skip=1)
    part = rig.part(to=replace(OPS, root=root))
    assert isinstance(await rig.platform.send(part), InDoubt)
    assert isinstance(await rig.platform.find(part), Receipt)


async def test_the_whole_window_is_read_page_by_page(rig):
    rig.server.api.page_cap = 2
    part = rig.part()
    await rig.platform.send(part)
    for n in range(7):
        rig.server.say("#ops", "kim", f"chatter {n}")
    assert isinstance(await rig.platform.find(part), Receipt)
    assert len(rig.server.calls_to("conversations.history")) == 4


async def test_what_lies_before_the_window_is_another_one(rig):
    part = rig.part()
    await rig.platform.send(part)
    later = replace(part, intent_at=datetime.now(UTC) + timedelta(hours=1))
    assert await rig.platform.find(later) == Absent()


async def test_another_apps_copy_of_the_marker_is_no_proof(rig):
    part = rig.part(marker="m-1")
    metadata = {"event_type": "hermes_cron_part", "event_payload": {"id": "m-1"}}
    rig.server.say("#ops", "alex", "copied", extra={"metadata": metadata, "bot_id": "B0OTHER"})
    assert await rig.platform.find(part) == Absent()


@pytest.mark.parametrize("kind", ["429", "http_500_before", "cut_before", "html", "truncated"])
async def test_a_window_that_was_not_read_to_its_end_cannot_tell(rig, kind):
    rig.server.api.page_cap = 1
    for n in range(3):
        rig.server.say("#ops", "kim", f"chatter {n}")
    rig.server.fault("conversations.history", kind, skip=1)
    assert isinstance(await rig.platform.find(rig.part()), CannotTell)


async def test_without_the_scope_nobody_can_tell(rig):
    part = rig.part()
    await rig.platform.send(part)
    rig.server.scopes.discard("channels:history")
    found = await rig.platform.find(part)
    assert isinstance(found, CannotTell)
    assert "channels:history" in found.reason


async def test_a_channel_that_we_are_not_in_cannot_be_asked(rig):
    rig.server.add_channel("others", members=["kim"])
    part = rig.part(to=replace(OPS, chat="C0OTHERS"))
    assert isinstance(await rig.platform.find(part), CannotTell)


async def test_a_post_of_a_killed_process_is_found_by_the_next_one(rig):
    rig.server.fault("chat.postMessage", "slow", seconds=5)
    part = rig.part()
    sending = asyncio.create_task(rig.platform.send(part))
    await rig.server.until(rig.server.posts)
    sending.cancel()
    await asyncio.wait((sending,))
    async with slack_rig(base_url=rig.server.api_url, workspace="T0TEAM") as restarted:
        found = await restarted.platform.find(part)
    assert isinstance(found, Receipt)
    assert found.address == replace(OPS, message=rig.server.posts()[0].ts)


async def test_a_direct_message_has_a_receipt_of_its_kind(rig):
    rig.server.world.open_im("kim")
    sent = await rig.platform.send(rig.part(to=replace(OPS, chat="D0KIM", chat_kind=ChatKind.DM)))
    assert (sent.receipt.address.chat, sent.receipt.address.chat_kind) == ("D0KIM", ChatKind.DM)


@pytest.mark.skipif(not FDS.is_dir(), reason="counts open files in /proc")
async def test_connections_that_slack_has_closed_do_not_pile_up(rig):
    await rig.platform.send(rig.part())
    before = len(os.listdir(FDS))
    for _ in range(150):
        await rig.platform.send(rig.part())
    await rig.settle()
    assert len(os.listdir(FDS)) <= before + 1
