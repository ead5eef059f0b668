"""The Slack test server fails on demand, and keeps or loses the post as the fault's name says."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from servers.slack import SlackServer
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as running:
        yield running


@pytest.fixture
def client(server: SlackServer) -> AsyncWebClient:
    return AsyncWebClient(token=server.bot_token, base_url=server.api_url, retry_handlers=[])


async def post(client: AsyncWebClient, text: str = "x", channel: str = "C0OPS"):
    return await client.chat_postMessage(channel=channel, text=text)


@pytest.mark.parametrize(("kind", "kept"), [("cut_before", 0), ("cut_after", 1)])
async def test_a_connection_drops_before_or_after_the_post_was_kept(server, client, kind, kept):
    server.fault("chat.postMessage", kind)
    with pytest.raises(aiohttp.ClientError):
        await post(client)
    assert len(server.posts()) == kept
    assert (await post(client))["ok"]


async def test_an_sdk_left_to_its_own_retries_posts_twice(server):
    careless = AsyncWebClient(token=server.bot_token, base_url=server.api_url)
    server.fault("chat.postMessage", "cut_after")
    assert (await post(careless))["ok"]
    assert len(server.posts()) == 2


async def test_a_slow_answer_comes_after_the_post_was_kept(server, client):
    server.fault("chat.postMessage", "slow", seconds=60)
    waiting = asyncio.create_task(post(client))
    await server.until(server.posts)
    assert not waiting.done()
    waiting.cancel()


async def test_a_post_whose_client_died_still_arrives_later(server, client):
    server.fault("chat.postMessage", "slow_before", seconds=0.3)
    waiting = asyncio.create_task(post(client))
    await server.until(lambda: server.calls)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert server.posts() == []
    await server.until(server.posts)


async def test_too_many_calls_get_429_with_retry_after(server, client):
    server.fault("chat.postMessage", "429", retry_after=7)
    with pytest.raises(SlackApiError) as problem:
        await post(client)
    answer = problem.value.response
    assert (answer.status_code, answer["error"], answer.headers["Retry-After"]) == (429, "ratelimited", "7")
    assert server.posts() == []


@pytest.mark.parametrize(("kind", "kept"), [("http_500_before", 0), ("http_500_after", 1)])
async def test_a_500_says_nothing_about_whether_the_post_was_kept(server, client, kind, kept):
    server.fault("chat.postMessage", kind)
    with pytest.raises(SlackApiError) as problem:
        await post(client)
    assert problem.value.response.status_code == 500
    assert len(server.posts()) == kept


@pytest.mark.parametrize(("kind", "kept"), [("error", 0), ("error_after", 1)])
async def test_any_error_code_can_be_ordered(server, client, kind, kept):
    server.fault("chat.postMessage", kind, code="fatal_error")
    with pytest.raises(SlackApiError) as problem:
        await post(client)
    assert problem.value.response["error"] == "fatal_error"
    assert len(server.posts()) == kept


@pytest.mark.parametrize("kind", ["truncated", "html"])
async def test_an_unreadable_answer_follows_a_post_that_was_kept(server, client, kind):
    server.fault("chat.postMessage", kind)
    with pytest.raises((aiohttp.ClientError, SlackApiError)):
        await post(client)
    assert len(server.posts()) == 1


async def test_a_fault_hits_as_often_and_where_it_is_told(server, client):
    fault = server.fault("chat.postMessage", "429", skip=1, times=2, channel="#ops")
    results = []
    for channel in ("C0OPS", "C0GENERAL", "C0OPS", "C0OPS", "C0OPS"):
        try:
            results.append((await post(client, channel=channel))["ok"])
        except SlackApiError as problem:
            results.append(problem.response["error"])
    assert results == [True, True, "ratelimited", "ratelimited", True]
    assert fault.hits == 2


async def test_a_fault_for_every_method_stays_until_cleared(server, client):
    server.fault("*", "error", code="token_revoked", times=None)
    for call in (client.auth_test, client.users_list):
        with pytest.raises(SlackApiError, match="token_revoked"):
            await call()
    server.clear_faults()
    assert (await client.auth_test())["ok"]


async def test_an_outage_cuts_calls_and_sockets_until_it_ends(server, client):
    web_client = AsyncWebClient(base_url=server.api_url)
    app = SocketModeClient(app_token=server.app_token, web_client=web_client, ping_interval=0.1)
    app.auto_reconnect_enabled = app.default_auto_reconnect_enabled = False
    await app.connect()
    await server.connected()
    server.outage()
    with pytest.raises(aiohttp.ClientError):
        await post(client)
    await server.until(lambda: not server.hub.sockets)
    server.outage("http_503")
    with pytest.raises(SlackApiError):
        await post(client)
    server.outage(None)
    assert (await post(client))["ok"]
    await app.close()


async def test_a_stopped_server_refuses_connections_and_comes_back_with_its_workspace(server, client):
    await post(client, "before")
    await server.stop()
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(client)
    await server.start()
    await post(client, "after")
    assert [p.text for p in server.posts()] == ["before", "after"]
