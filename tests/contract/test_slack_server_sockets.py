"""The Slack test server's Socket Mode: tickets, acknowledgements, redelivery, sockets that end or die."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from servers.slack import SlackServer
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

Connect = Callable[..., Awaitable[tuple[SocketModeClient, list]]]


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer(time_scale=0.001) as running:
        yield running


@pytest.fixture
async def connect(server: SlackServer) -> AsyncIterator[Connect]:
    apps: list[SocketModeClient] = []

    async def open_one(acks: bool = True, answer: dict | None = None, **settings):
        web_client = AsyncWebClient(base_url=server.api_url)
        app = SocketModeClient(app_token=server.app_token, web_client=web_client, **settings)
        requests: list = []

        async def take(socket, request) -> None:
            requests.append(request)
            if acks:
                response = SocketModeResponse(envelope_id=request.envelope_id, payload=answer)
                await socket.send_socket_mode_response(response)

        app.socket_mode_request_listeners.append(take)
        apps.append(app)
        before = server.hub.opened
        await app.connect()
        await server.until(lambda: server.hub.opened > before)
        return app, requests

    yield open_one
    for app in apps:
        await app.close()


async def test_the_server_greets_with_hello(server, connect):
    await connect()
    web_client = AsyncWebClient(base_url=server.api_url)
    url = (await web_client.apps_connections_open(app_token=server.app_token))["url"]
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        hello = await socket.receive_json()
    assert (hello["type"], hello["num_connections"]) == ("hello", 2)
    assert hello["connection_info"]["app_id"] == "A0APP"


async def test_a_ticket_opens_one_socket(server):
    web_client = AsyncWebClient(token=server.app_token, base_url=server.api_url)
    url = (await web_client.apps_connections_open(app_token=server.app_token))["url"]
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(url) as socket:
            assert (await socket.receive_json())["type"] == "hello"
        with pytest.raises(aiohttp.WSServerHandshakeError) as problem:
            await http.ws_connect(url)
    assert problem.value.status == 404


async def test_an_acknowledgement_is_on_record_with_its_time(server, connect):
    await connect()
    ts = server.say("#ops", "kim", "hello")
    await server.until(lambda: server.acked(ts))
    [delivery] = server.deliveries(ts)
    [ack] = server.acks
    assert (ack.event_id, ack.envelope_id) == (delivery.event_id, delivery.envelopes[0].id)
    assert ack.at >= delivery.envelopes[0].sent_at


async def test_an_unacknowledged_event_comes_again_three_times_and_is_gone(server, connect):
    server.hub.patience = 0.1
    _, requests = await connect(acks=False)
    ts = server.say("#ops", "kim", "hello")
    [delivery] = server.deliveries(ts)
    await server.until(lambda: delivery.is_gone)
    assert [(r.retry_attempt, r.retry_reason) for r in requests] == [
        (0, ""),
        (1, "timeout"),
        (2, "timeout"),
        (3, "timeout"),
    ]
    assert {r.payload["event_id"] for r in requests} == {delivery.event_id}
    assert len({r.envelope_id for r in requests}) == 4
    waits = [b.sent_at - a.sent_at for a, b in zip(delivery.envelopes, delivery.envelopes[1:], strict=False)]
    assert all(wait >= least for wait, least in zip(waits, (0.09, 0.15, 0.39), strict=True))


async def test_an_event_said_while_nobody_was_connected_comes_with_the_next_try(server, connect):
    server.hub.time_scale = 0.01
    ts = server.say("#ops", "kim", "hello")
    [delivery] = server.deliveries(ts)
    await server.until(lambda: len(delivery.envelopes) == 2)
    _, requests = await connect()
    await server.until(lambda: server.acked(ts))
    assert [e.socket for e in delivery.envelopes[:2]] == [None, None]
    assert requests[0].retry_attempt >= 2


async def test_an_acknowledged_event_can_come_again(server, connect):
    _, requests = await connect()
    ts = server.say("#ops", "kim", "hello")
    [delivery] = await server.until(lambda: server.acked(ts) and server.deliveries(ts))
    server.redeliver(delivery)
    await server.until(lambda: len(delivery.acks) == 2)
    assert [r.retry_attempt for r in requests] == [0, 1]


async def test_each_event_goes_to_one_of_several_sockets(server, connect):
    _, one = await connect()
    _, two = await connect()
    stamps = [server.say("#ops", "kim", str(n)) for n in range(4)]
    await server.until(lambda: all(server.acked(ts) for ts in stamps))
    assert sorted((len(one), len(two))) == [2, 2]
    assert sorted(r.payload["event"]["text"] for r in one + two) == ["0", "1", "2", "3"]


async def test_the_eleventh_socket_is_one_too_many(server):
    web_client = AsyncWebClient(base_url=server.api_url)
    async with aiohttp.ClientSession() as http:
        sockets = []
        for _ in range(11):
            url = (await web_client.apps_connections_open(app_token=server.app_token))["url"]
            sockets.append(await http.ws_connect(url))
        frames = [await socket.receive_json() for socket in sockets]
    assert [f["type"] for f in frames] == ["hello"] * 10 + ["disconnect"]
    assert frames[10]["reason"] == "too_many_websockets"


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "link_disabled"])
async def test_after_a_disconnect_frame_the_client_comes_back(server, connect, reason):
    _, requests = await connect()
    [old] = server.hub.sockets
    await server.disconnect(reason, close_after=0.5)
    await server.until(lambda: server.hub.sockets and server.hub.sockets[0] is not old)
    ts = server.say("#ops", "kim", "hello")
    await server.until(lambda: server.acked(ts))
    assert requests[-1].payload["event"]["text"] == "hello"


async def test_one_socket_is_replaced_while_the_other_goes_on(server, connect):
    await connect()
    await connect()
    first, second = server.hub.sockets
    await server.disconnect("warning", socket=first, close_after=0.5)
    await server.until(lambda: len(server.hub.sockets) == 2 and first not in server.hub.sockets)
    assert second in server.hub.sockets


async def test_a_socket_that_dies_silently_sends_no_fin_and_answers_no_ping(server, connect):
    app, requests = await connect(ping_interval=0.1)
    [old] = server.hub.sockets
    server.silence()
    ts = server.say("#ops", "kim", "hello")
    await asyncio.sleep(0)
    assert (await app.is_connected(), old.is_silent) == (True, True)
    await server.until(lambda: server.hub.opened == 2, timeout=15)
    await server.until(lambda: old not in server.hub.sockets, timeout=15)
    assert not any(r.envelope_id == server.deliveries(ts)[0].envelopes[0].id for r in requests)


async def test_server_pings_are_sent_and_answered(server):
    server.hub.ping_interval = 0.05
    web_client = AsyncWebClient(base_url=server.api_url)
    url = (await web_client.apps_connections_open(app_token=server.app_token))["url"]
    async with aiohttp.ClientSession() as http, http.ws_connect(url, autoping=False) as socket:
        kinds = []
        await socket.ping(b"mine")
        while len(kinds) < 3:
            kinds.append((await asyncio.wait_for(socket.receive(), 5)).type.name)
    assert sorted(kinds) == ["PING", "PONG", "TEXT"]


async def test_a_slash_command_takes_an_answer_with_its_acknowledgement(server, connect):
    _, requests = await connect(answer={"text": "two jobs"})
    delivery = server.slash("#ops", "kim", "/cron", "list")
    await server.until(lambda: delivery.acks)
    [request] = requests
    assert (request.type, request.accepts_response_payload) == ("slash_commands", True)
    assert (request.payload["command"], request.payload["text"]) == ("/cron", "list")
    assert (request.payload["channel_id"], request.payload["user_id"]) == ("C0OPS", "U0KIM")
    assert delivery.acks[0].payload == {"text": "two jobs"}
    async with aiohttp.ClientSession() as http:
        await http.post(request.payload["response_url"], json={"text": "later"})
    assert server.responses == [{"text": "later"}]


async def test_a_button_names_the_message_it_is_on(server, connect):
    _, requests = await connect()
    root = server.say("#ops", "kim", "root")
    ts = server.say("#ops", "kim", "choose", thread_ts=root)
    delivery = server.click("#ops", "alex", ts, "snooze", "2h")
    await server.until(lambda: delivery.acks)
    payload = requests[-1].payload
    assert (requests[-1].type, payload["type"], payload["user"]["id"]) == (
        "interactive",
        "block_actions",
        "U0ALEX",
    )
    assert (payload["container"]["message_ts"], payload["container"]["thread_ts"]) == (ts, root)
    assert (payload["actions"][0]["action_id"], payload["actions"][0]["value"]) == ("snooze", "2h")
