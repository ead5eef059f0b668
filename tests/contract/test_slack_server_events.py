"""The Slack test server tells the app what happens, in the events that Slack would send."""

from collections.abc import AsyncIterator

import pytest
from servers.slack import SlackServer
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as running:
        yield running


@pytest.fixture
def client(server: SlackServer) -> AsyncWebClient:
    return AsyncWebClient(token=server.bot_token, base_url=server.api_url, retry_handlers=[])


class Heard(list):
    """The payloads that the app received, in order."""

    def __init__(self, server: SlackServer) -> None:
        super().__init__()
        self.server = server

    async def take(self, socket, request) -> None:
        self.append(request.payload)
        await socket.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

    async def events(self, count: int) -> list[dict]:
        await self.server.until(lambda: len(self) >= count and len(self.server.acks) >= count)
        assert len(self) == count
        return [payload["event"] for payload in self]


@pytest.fixture
async def heard(server: SlackServer) -> AsyncIterator[Heard]:
    web_client = AsyncWebClient(base_url=server.api_url)
    app = SocketModeClient(app_token=server.app_token, web_client=web_client)
    payloads = Heard(server)
    app.socket_mode_request_listeners.append(payloads.take)
    await app.connect()
    await server.connected()
    yield payloads
    await app.close()


@pytest.mark.parametrize(
    ("kind", "word"),
    [("public_channel", "channel"), ("private_channel", "group"), ("im", "im"), ("mpim", "mpim")],
)
async def test_a_message_names_the_kind_of_place(server, heard, kind, word):
    place = server.add_channel("place", kind=kind, members=["kim", "hermes"])
    ts = server.say(place.id, "kim", "hello")
    [event] = await heard.events(1)
    assert (event["channel"], event["channel_type"], event["ts"]) == (place.id, word, ts)
    assert (event["user"], event["text"], event.get("subtype")) == ("U0KIM", "hello", None)


async def test_the_envelope_names_team_and_event(server, heard):
    server.say("#ops", "kim", "hello")
    await heard.events(1)
    [payload] = heard
    assert payload["type"] == "event_callback"
    assert payload["team_id"] == "T0TEAM"
    assert payload["authorizations"][0]["user_id"] == "U0BOT"
    assert payload["event_id"].startswith("Ev")


async def test_a_reply_carries_its_root(server, heard):
    root = server.say("#ops", "kim", "root")
    server.say("#ops", "alex", "reply", thread_ts=root)
    _, reply = await heard.events(2)
    assert (reply["thread_ts"], reply["parent_user_id"]) == (root, "U0KIM")


@pytest.mark.parametrize(
    ("order", "types"),
    [("after", ["message", "app_mention"]), ("before", ["app_mention", "message"]), ("alone", ["app_mention"])],
)
async def test_a_mention_comes_as_two_events_in_either_order(server, heard, order, types):
    ts = server.say("#ops", "kim", "status", mention=True, order=order)
    events = await heard.events(len(types))
    assert [e["type"] for e in events] == types
    assert {e["ts"] for e in events} == {ts}
    assert events[0]["text"] == "<@U0BOT> status"


async def test_a_mention_in_a_direct_conversation_is_only_a_message(server, heard):
    server.say("@kim", "kim", "status", mention=True)
    [event] = await heard.events(1)
    assert (event["type"], event["channel_type"]) == ("message", "im")


async def test_also_send_to_channel_comes_twice(server, heard):
    root = server.say("#ops", "kim", "root")
    ts = server.say("#ops", "kim", "both", thread_ts=root, broadcast=True)
    _, posted, changed = await heard.events(3)
    assert (posted["subtype"], posted["thread_ts"], posted["ts"]) == ("thread_broadcast", root, ts)
    assert (changed["subtype"], changed["message"]["ts"]) == ("message_changed", ts)
    assert changed["message"]["text"] == changed["previous_message"]["text"]


async def test_an_edit_carries_both_texts(server, heard):
    ts = server.say("#ops", "kim", "one")
    server.edit("#ops", ts, "two")
    _, event = await heard.events(2)
    assert (event["subtype"], event["message"]["ts"]) == ("message_changed", ts)
    assert (event["message"]["text"], event["previous_message"]["text"]) == ("two", "one")
    assert event["message"]["edited"]["user"] == "U0KIM"
    assert event["ts"] != ts


@pytest.mark.parametrize("change", ["touch", "unfurl"])
async def test_a_change_may_leave_the_text_alone(server, heard, change):
    ts = server.say("#ops", "kim", "see https://example.com/")
    getattr(server, change)("#ops", ts)
    _, event = await heard.events(2)
    assert event["subtype"] == "message_changed"
    assert event["message"]["text"] == event["previous_message"]["text"]
    assert "edited" not in event["message"]


async def test_our_own_posts_come_back_as_events(server, client, heard):
    ts = (await client.chat_postMessage(channel="C0OPS", text="brief"))["ts"]
    await client.chat_update(channel="C0OPS", ts=ts, text="brief, mended")
    await client.chat_delete(channel="C0OPS", ts=ts)
    posted, changed, deleted = await heard.events(3)
    assert (posted["user"], posted["bot_id"], posted["app_id"]) == ("U0BOT", "B0BOT", "A0APP")
    assert changed["message"]["bot_id"] == "B0BOT"
    assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", ts)


async def test_another_bot_has_no_user(server, heard):
    server.bot_says("#ops", "build failed")
    [event] = await heard.events(1)
    assert (event["subtype"], event["bot_id"], "user" in event) == ("bot_message", "B0OTHER", False)


async def test_a_deletion_names_the_message(server, heard):
    ts = server.say("#ops", "kim", "oops")
    server.remove(ts, "#ops")
    _, event = await heard.events(2)
    assert (event["subtype"], event["previous_message"]["text"]) == ("message_deleted", "oops")
    assert event["deleted_ts"] == ts


async def test_reactions_name_the_message_and_its_author(server, heard):
    ts = server.say("#ops", "kim", "done")
    server.react("#ops", "alex", ts)
    server.react("#ops", "alex", ts, remove=True)
    _, added, removed = await heard.events(3)
    assert (added["type"], removed["type"]) == ("reaction_added", "reaction_removed")
    assert added["item"] == {"type": "message", "channel": "C0OPS", "ts": ts}
    assert (added["user"], added["item_user"]) == ("U0ALEX", "U0KIM")


async def test_a_person_of_another_company_brings_another_team(server, heard):
    server.add_user("sam", team="T0OTHER")
    server.add_channel("joint", shared=True)
    server.say("#joint", "sam", "hello")
    [event] = await heard.events(1)
    [payload] = heard
    assert (payload["team_id"], payload["is_ext_shared_channel"]) == ("T0OTHER", True)
    assert (event["team"], event["user_team"]) == ("T0OTHER", "T0OTHER")
    assert payload["authorizations"][0]["team_id"] == "T0TEAM"


async def test_a_channel_may_change_its_id(server, client, heard):
    server.add_channel("secret", kind="private_channel")
    ts = server.say("#secret", "kim", "hello")
    server.change_channel_id("#secret", "C0JOINT")
    _, event = await heard.events(2)
    assert (event["type"], event["old_channel_id"], event["new_channel_id"]) == (
        "channel_id_changed",
        "C0SECRET",
        "C0JOINT",
    )
    [message] = (await client.conversations_history(channel="C0JOINT"))["messages"]
    assert message["ts"] == ts


async def test_nothing_is_heard_where_we_are_not_or_lack_the_scope(server, heard):
    server.add_channel("others", members=["kim"])
    server.say("#others", "kim", "not ours")
    server.scopes.discard("im:history")
    server.say("@kim", "kim", "unheard")
    server.say("#ops", "kim", "heard")
    [event] = await heard.events(1)
    assert event["text"] == "heard"


async def test_any_event_can_be_sent_as_it_is(server, heard):
    server.emit("#ops", {"type": "member_joined_channel", "user": "U0KIM", "channel": "C0OPS"})
    [event] = await heard.events(1)
    assert event["type"] == "member_joined_channel"
