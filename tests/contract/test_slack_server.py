"""The Slack test server takes posts as Slack does; driven by the real SDK."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from servers.slack import SlackServer
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

NEVER = "1700000000.000100"


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as running:
        yield running


@pytest.fixture
def client(server: SlackServer) -> AsyncWebClient:
    return AsyncWebClient(token=server.bot_token, base_url=server.api_url)


async def refused(call) -> str:
    with pytest.raises(SlackApiError) as problem:
        await call
    return problem.value.response["error"]


async def test_who_we_are_and_what_we_may(server, client):
    answer = await client.auth_test()
    assert (answer["team_id"], answer["user_id"], answer["bot_id"]) == ("T0TEAM", "U0BOT", "B0BOT")
    assert "chat:write" in answer.headers["x-oauth-scopes"].split(",")


async def test_an_org_wide_install_names_its_enterprise(server, client):
    server.world.enterprise = "E0ORG"
    answer = await client.auth_test()
    assert (answer["enterprise_id"], answer["is_enterprise_install"]) == ("E0ORG", True)


async def test_a_wrong_token_is_refused(server):
    stranger = AsyncWebClient(token="xoxb-wrong", base_url=server.api_url)
    assert await refused(stranger.auth_test()) == "invalid_auth"
    assert await refused(AsyncWebClient(base_url=server.api_url).auth_test()) == "not_authed"


async def test_each_token_serves_its_own_methods(server, client):
    assert await refused(client.apps_connections_open(app_token=server.bot_token)) == "not_allowed_token_type"
    app = AsyncWebClient(token=server.app_token, base_url=server.api_url)
    assert await refused(app.chat_postMessage(channel="C0OPS", text="x")) == "not_allowed_token_type"


async def test_a_missing_scope_is_named(server, client):
    server.scopes.discard("chat:write")
    with pytest.raises(SlackApiError) as problem:
        await client.chat_postMessage(channel="C0OPS", text="x")
    assert problem.value.response["needed"] == "chat:write"


async def test_a_method_that_does_not_exist(client):
    assert await refused(client.api_call("chat.shout")) == "unknown_method"


async def test_a_post_comes_back_and_is_kept(server, client):
    metadata = {"event_type": "brief", "event_payload": {"id": "p1"}}
    blocks = [{"type": "markdown", "text": "**3** builds"}]
    answer = await client.chat_postMessage(channel="C0OPS", text="3 builds", blocks=blocks, metadata=metadata)
    [post] = server.posts("#ops")
    assert (answer["channel"], answer["ts"]) == (post.channel, post.ts)
    assert (post.text, post.blocks, post.metadata, post.thread_ts) == ("3 builds", blocks, metadata, None)
    assert answer["message"]["bot_id"] == "B0BOT"


async def test_timestamps_are_text_with_six_decimals_and_only_grow(server, client):
    stamps = [(await client.chat_postMessage(channel="C0OPS", text=str(n)))["ts"] for n in range(5)]
    stamps.append(server.say("#general", "kim", "hello"))
    assert stamps == sorted(set(stamps))
    assert all(len(ts.split(".")[0]) == 10 and len(ts.split(".")[1]) == 6 for ts in stamps)


async def test_a_ts_kept_as_a_number_is_no_longer_that_ts(server):
    ts = server.say("#ops", "kim", "hello")
    assert str(float(ts)) != ts


async def test_a_form_is_read_like_json(server, client):
    blocks = '[{"type": "markdown", "text": "hello"}]'
    form = {"channel": "C0OPS", "text": "hello", "blocks": blocks}
    answer = await client.api_call("chat.postMessage", data=form)
    assert answer["message"]["blocks"] == [{"type": "markdown", "text": "hello"}]


async def test_names_and_people_are_taken_as_channels(server, client):
    assert (await client.chat_postMessage(channel="#ops", text="x"))["channel"] == "C0OPS"
    assert (await client.chat_postMessage(channel="U0KIM", text="x"))["channel"] == "D0KIM"


async def test_a_reply_goes_into_its_thread(server, client):
    root = server.say("#ops", "kim", "root")
    answer = await client.chat_postMessage(channel="C0OPS", text="below", thread_ts=root)
    assert answer["message"]["thread_ts"] == root
    assert answer["message"]["parent_user_id"] == "U0KIM"


async def test_an_unknown_thread_silently_becomes_a_top_level_post(server, client):
    answer = await client.chat_postMessage(channel="C0OPS", text="below", thread_ts=NEVER)
    assert "thread_ts" not in answer["message"]
    history = await client.conversations_history(channel="C0OPS")
    assert [m["text"] for m in history["messages"]] == ["below"]


async def test_a_thread_number_without_six_decimals_is_accepted_and_never_seen(server, client):
    root = server.say("#ops", "kim", "root")
    assert (await client.chat_postMessage(channel="C0OPS", text="lost", thread_ts=float(root)))["ok"]
    history = await client.conversations_history(channel="C0OPS")
    thread = await client.conversations_replies(channel="C0OPS", ts=root)
    assert [m["text"] for m in history["messages"] + thread["messages"]] == ["root", "root"]


async def test_a_thread_that_is_no_number_is_refused(client):
    call = client.chat_postMessage(channel="C0OPS", text="x", thread_ts="0")
    assert await refused(call) == "invalid_thread_ts"


async def test_a_replys_ts_as_root_scatters_the_conversation(server, client):
    root = server.say("#ops", "kim", "root")
    reply = server.say("#ops", "kim", "reply", thread_ts=root)
    await client.chat_postMessage(channel="C0OPS", text="astray", thread_ts=reply)
    thread = await client.conversations_replies(channel="C0OPS", ts=root)
    assert [m["text"] for m in thread["messages"]] == ["root", "reply"]


async def test_also_send_to_channel_is_in_both(server, client):
    root = server.say("#ops", "kim", "root")
    posted = await client.chat_postMessage(channel="C0OPS", text="both", thread_ts=root, reply_broadcast=True)
    assert posted["message"]["subtype"] == "thread_broadcast"
    assert posted["message"]["root"]["ts"] == root
    history = await client.conversations_history(channel="C0OPS")
    thread = await client.conversations_replies(channel="C0OPS", ts=root)
    assert [m["text"] for m in history["messages"]] == ["both", "root"]
    assert [m["text"] for m in thread["messages"]] == ["root", "both"]


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ([{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}], "invalid_blocks"),
        ([{"type": "divider"}] * 51, "invalid_blocks"),
        ([{"type": "markdown", "text": "x" * 12_001}], "invalid_blocks"),
        ([{"type": "markdown", "text": "x" * 6_650}] * 2, "msg_blocks_too_long"),
        ([{"type": "markdown", "text": ""}], "invalid_blocks"),
        ([{"type": "poem", "text": "x"}], "invalid_blocks"),
        ("[not json", "invalid_blocks_format"),
    ],
)
async def test_blocks_beyond_a_limit_are_refused_and_nothing_is_posted(server, client, blocks, error):
    assert await refused(client.chat_postMessage(channel="C0OPS", text="x", blocks=blocks)) == error
    assert server.posts() == []


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_000}}],
        [{"type": "divider"}] * 50,
        [{"type": "markdown", "text": "x" * 12_000}],
        [{"type": "markdown", "text": "x" * 6_600}] * 2,
    ],
)
async def test_blocks_at_a_limit_are_taken(client, blocks):
    assert (await client.chat_postMessage(channel="C0OPS", text="x", blocks=blocks))["ok"]


async def test_a_long_text_without_blocks_is_cut_into_several_messages(server, client):
    answer = await client.chat_postMessage(channel="C0OPS", text="```" + "x" * 4_100 + "```")
    assert [len(p.text) for p in server.posts("#ops")] == [4_000, 106]
    assert answer["ts"] == server.posts("#ops")[0].ts


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("{", "invalid_metadata_format"),
        ({"event_payload": {}}, "invalid_metadata_format"),
        ({"event_type": "x", "event_payload": "y"}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": {"y": "z" * 9_000}}, "metadata_too_large"),
    ],
)
async def test_bad_metadata_is_refused(client, metadata, error):
    call = client.api_call("chat.postMessage", json={"channel": "C0OPS", "text": "x", "metadata": metadata})
    assert await refused(call) == error


@pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing")
async def test_a_message_needs_a_content_and_only_one(client):
    assert await refused(client.chat_postMessage(channel="C0OPS")) == "no_text"
    both = client.chat_postMessage(channel="C0OPS", text="x", markdown_text="x")
    assert await refused(both) == "markdown_text_conflict"


async def test_places_that_we_cannot_post_to(server, client):
    server.add_channel("others", members=["kim"])
    server.add_channel("secret", kind="private_channel", members=["kim"])
    server.add_channel("old").is_archived = True
    assert await refused(client.chat_postMessage(channel="C0OTHERS", text="x")) == "not_in_channel"
    assert await refused(client.chat_postMessage(channel="C0SECRET", text="x")) == "channel_not_found"
    assert await refused(client.chat_postMessage(channel="C0NOWHERE", text="x")) == "channel_not_found"
    assert await refused(client.chat_postMessage(channel="C0OLD", text="x")) == "is_archived"


async def test_chat_write_public_posts_where_we_are_not(server, client):
    server.add_channel("others", members=["kim"])
    server.scopes.add("chat:write.public")
    assert (await client.chat_postMessage(channel="C0OTHERS", text="x"))["ok"]


async def test_a_thread_only_channel_takes_replies_alone(server, client):
    server.world.channel("#ops").refusal = "restricted_action_thread_only_channel"
    root = server.say("#ops", "kim", "root")
    call = client.chat_postMessage(channel="C0OPS", text="x")
    assert await refused(call) == "restricted_action_thread_only_channel"
    assert (await client.chat_postMessage(channel="C0OPS", text="x", thread_ts=root))["ok"]


async def test_a_channel_without_threads_takes_top_level_alone(server, client):
    server.world.channel("#ops").refusal = "restricted_action_non_threadable_channel"
    root = server.say("#ops", "kim", "root")
    call = client.chat_postMessage(channel="C0OPS", text="x", thread_ts=root)
    assert await refused(call) == "restricted_action_non_threadable_channel"
    assert (await client.chat_postMessage(channel="C0OPS", text="x"))["ok"]


async def test_our_own_message_can_be_changed_within_4000_characters(server, client):
    ts = (await client.chat_postMessage(channel="C0OPS", text="one"))["ts"]
    assert (await client.chat_update(channel="C0OPS", ts=ts, text="two"))["text"] == "two"
    assert await refused(client.chat_update(channel="C0OPS", ts=ts, text="x" * 4_001)) == "msg_too_long"
    [post] = server.posts()
    assert (post.text, post.edits) == ("two", ["one"])


async def test_another_persons_message_cannot_be_changed(server, client):
    ts = server.say("#ops", "kim", "mine")
    assert await refused(client.chat_update(channel="C0OPS", ts=ts, text="x")) == "cant_update_message"
    assert await refused(client.chat_delete(channel="C0OPS", ts=ts)) == "cant_delete_message"
    assert await refused(client.chat_update(channel="C0OPS", ts=NEVER, text="x")) == "message_not_found"


async def test_a_deleted_post_is_gone_but_a_root_with_replies_stays_as_a_tombstone(server, client):
    lone = (await client.chat_postMessage(channel="C0OPS", text="lone"))["ts"]
    root = (await client.chat_postMessage(channel="C0OPS", text="root"))["ts"]
    server.say("#ops", "kim", "below", thread_ts=root)
    await client.chat_delete(channel="C0OPS", ts=lone)
    await client.chat_delete(channel="C0OPS", ts=root)
    [left] = (await client.conversations_history(channel="C0OPS"))["messages"]
    assert (left["ts"], left["subtype"]) == (root, "tombstone")


async def test_a_status_is_shown_in_a_thread_only(server, client):
    root = server.say("#ops", "kim", "root")
    await client.assistant_threads_setStatus(channel_id="C0OPS", thread_ts=root, status="thinking")
    assert [(s.thread_ts, s.status) for s in server.statuses] == [(root, "thinking")]
    call = client.assistant_threads_setStatus(channel_id="C0OPS", thread_ts=NEVER, status="x")
    assert await refused(call) == "invalid_thread_ts"


async def test_every_call_is_on_record(server, client):
    await client.chat_postMessage(channel="C0OPS", text="x")
    await refused(client.chat_postMessage(channel="C0NOWHERE", text="x"))
    assert [(c.args["channel"], c.result) for c in server.calls_to("chat.postMessage")] == [
        ("C0OPS", "ok"),
        ("C0NOWHERE", "channel_not_found"),
    ]


async def test_a_tool_outside_drives_the_server_over_http(server, client):
    async with aiohttp.ClientSession() as http:
        said = {"channel": "#ops", "user": "kim", "text": "hello"}
        ts = (await (await http.post(f"{server.url}/__test/say", json=said)).json())["ts"]
        await client.chat_postMessage(channel="C0OPS", text="answer", thread_ts=ts)
        listed = await http.get(f"{server.url}/__test/posts", params={"channel": "#ops", "count": 1})
        assert [(p["text"], p["thread_ts"]) for p in await listed.json()] == [("answer", ts)]
        wrong = await http.post(f"{server.url}/__test/shout", json={})
        assert (wrong.status, (await wrong.json())["error"][:18]) == (400, "no command 'shout'")
