"""The Slack test server is read back as Slack is: history, threads, people, places, files."""

from collections.abc import AsyncIterator

import pytest
from servers.slack import SlackServer
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient


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


def texts(answer) -> list[str]:
    return [m["text"] for m in answer["messages"]]


async def test_history_is_newest_first_and_holds_no_replies(server, client):
    root = server.say("#ops", "kim", "one")
    server.say("#ops", "kim", "below", thread_ts=root)
    server.say("#ops", "kim", "two")
    answer = await client.conversations_history(channel="C0OPS")
    assert texts(answer) == ["two", "one"]
    assert answer["messages"][1]["reply_count"] == 1


async def test_a_thread_is_oldest_first_with_its_root(server, client):
    root = server.say("#ops", "kim", "root")
    reply = server.say("#ops", "alex", "a", thread_ts=root)
    server.say("#ops", "kim", "b", thread_ts=root)
    assert texts(await client.conversations_replies(channel="C0OPS", ts=root)) == ["root", "a", "b"]
    assert texts(await client.conversations_replies(channel="C0OPS", ts=reply)) == ["root", "a", "b"]


async def test_the_root_leads_a_thread_whatever_the_window(server, client):
    root = server.say("#ops", "kim", "root")
    first = server.say("#ops", "kim", "a", thread_ts=root)
    server.say("#ops", "kim", "b", thread_ts=root)
    answer = await client.conversations_replies(channel="C0OPS", ts=root, oldest=first)
    assert texts(answer) == ["root", "b"]


async def test_a_thread_that_is_not_there(client):
    call = client.conversations_replies(channel="C0OPS", ts="1700000000.000100")
    assert await refused(call) == "thread_not_found"


async def test_the_ends_of_a_window_count_only_if_inclusive(server, client):
    one, _, three = (server.say("#ops", "kim", t) for t in ("one", "two", "three"))
    window = {"channel": "C0OPS", "oldest": one, "latest": three}
    assert texts(await client.conversations_history(**window)) == ["two"]
    assert texts(await client.conversations_history(**window, inclusive=True)) == ["three", "two", "one"]
    call = client.conversations_history(channel="C0OPS", oldest="yesterday")
    assert await refused(call) == "invalid_ts_oldest"


async def test_history_comes_in_pages(server, client):
    for number in range(5):
        server.say("#ops", "kim", str(number))
    seen, cursor = [], None
    while cursor != "":
        answer = await client.conversations_history(channel="C0OPS", limit=2, cursor=cursor)
        seen.append(texts(answer))
        cursor = answer.get("response_metadata", {}).get("next_cursor", "")
    assert seen == [["4", "3"], ["2", "1"], ["0"]]
    assert await refused(client.conversations_history(channel="C0OPS", cursor="!")) == "invalid_cursor"


async def test_later_pages_of_a_thread_omit_the_root(server, client):
    root = server.say("#ops", "kim", "root")
    for text in "abc":
        server.say("#ops", "kim", text, thread_ts=root)
    first = await client.conversations_replies(channel="C0OPS", ts=root, limit=2)
    cursor = first["response_metadata"]["next_cursor"]
    second = await client.conversations_replies(channel="C0OPS", ts=root, limit=2, cursor=cursor)
    assert (texts(first), texts(second), second["has_more"]) == (["root", "a"], ["b", "c"], False)


async def test_an_app_outside_the_marketplace_gets_fifteen_a_page(server, client):
    server.api.page_cap = 15
    for number in range(20):
        server.say("#ops", "kim", str(number))
    assert len(texts(await client.conversations_history(channel="C0OPS", limit=100))) == 15


async def test_metadata_is_whole_only_if_asked_for(server, client):
    metadata = {"event_type": "brief", "event_payload": {"id": "p1"}}
    root = (await client.chat_postMessage(channel="C0OPS", text="x", metadata=metadata))["ts"]
    plain = await client.conversations_history(channel="C0OPS")
    whole = await client.conversations_history(channel="C0OPS", include_all_metadata=True)
    thread = await client.conversations_replies(channel="C0OPS", ts=root, include_all_metadata=True)
    assert plain["messages"][0]["metadata"] == {"event_type": "brief"}
    assert whole["messages"][0]["metadata"] == thread["messages"][0]["metadata"] == metadata


async def test_reading_takes_membership_and_the_scope_of_the_kind(server, client):
    server.add_channel("others", members=["kim"])
    server.add_channel("secret", kind="private_channel", members=["kim"])
    server.scopes.discard("im:history")
    assert await refused(client.conversations_history(channel="C0OTHERS")) == "not_in_channel"
    assert await refused(client.conversations_history(channel="C0SECRET")) == "channel_not_found"
    server.say("@kim", "kim", "hello")
    assert await refused(client.conversations_history(channel="D0KIM")) == "missing_scope"


async def test_places_are_listed_by_kind_and_page(server, client):
    server.add_channel("secret", kind="private_channel", members=["kim"])
    server.add_channel("ours", kind="private_channel")
    server.add_channel("old").is_archived = True
    private = await client.conversations_list(types="private_channel")
    assert [c["name"] for c in private["channels"]] == ["ours"]
    first = await client.conversations_list(types="public_channel", limit=2, exclude_archived=True)
    assert [c["name"] for c in first["channels"]] == ["general", "ops"]
    assert first["response_metadata"]["next_cursor"] == ""
    paged = await client.conversations_list(limit=2)
    rest = await client.conversations_list(limit=2, cursor=paged["response_metadata"]["next_cursor"])
    assert [c["name"] for c in rest["channels"]] == ["old"]


async def test_a_place_says_what_it_is(server, client):
    server.say("@kim", "kim", "hello")
    public = (await client.conversations_info(channel="C0OPS"))["channel"]
    direct = (await client.conversations_info(channel="D0KIM"))["channel"]
    assert (public["is_channel"], public["is_member"], public["name"]) == (True, True, "ops")
    assert (direct["is_im"], direct["user"]) == (True, "U0KIM")


async def test_a_conversation_with_people_is_opened_once(server, client):
    first = await client.conversations_open(users="U0KIM")
    again = await client.conversations_open(users=["U0KIM"])
    group = await client.conversations_open(users=["U0KIM", "U0ALEX"])
    assert first["channel"]["id"] == again["channel"]["id"] == "D0KIM"
    assert again["already_open"] is True
    info = await client.conversations_info(channel=group["channel"]["id"])
    assert info["channel"]["is_mpim"] is True
    assert await refused(client.conversations_open(users="U0NOBODY")) == "user_not_found"


async def test_people_are_found(client):
    assert (await client.users_info(user="U0KIM"))["user"]["name"] == "kim"
    assert await refused(client.users_info(user="U0NOBODY")) == "user_not_found"
    names = [u["name"] for u in (await client.users_list())["members"]]
    assert names == ["hermes", "kim", "alex"]


async def test_a_file_is_uploaded_and_shared(server, client):
    root = server.say("#ops", "kim", "root")
    done = await client.files_upload_v2(
        filename="log.txt", content="hello", channel="C0OPS", thread_ts=root, initial_comment="the log"
    )
    [post] = server.posts("#ops")
    info = await client.files_info(file=done["file"]["id"])
    [share] = info["file"]["shares"]["public"]["C0OPS"]
    assert (share["ts"], share["thread_ts"]) == (post.ts, root)
    assert (post.text, post.subtype, info["file"]["size"]) == ("the log", "file_share", 5)
    assert "ts" not in done["file"]


async def test_a_share_may_come_some_time_after_the_answer(server, client):
    server.api.holds_shares = True
    done = await client.files_upload_v2(filename="log.txt", content="hello", channel="C0OPS")
    before = await client.files_info(file=done["file"]["id"])
    [ts] = server.complete_shares()
    after = await client.files_info(file=done["file"]["id"])
    assert before["file"]["shares"] == {}
    assert after["file"]["shares"]["public"]["C0OPS"][0]["ts"] == ts
