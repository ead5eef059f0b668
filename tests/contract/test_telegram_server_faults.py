"""The Telegram test server in trouble: faults, outages, rates, and the control API of a separate process."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from servers.telegram import DEFAULT_TOKEN, TelegramServer
from telegram import Bot
from telegram.error import BadRequest, NetworkError, RetryAfter, TelegramError, TimedOut

TESTS = Path(__file__).resolve().parents[1]


class Ticks:
    """A monotonic clock that tests wind by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture(autouse=True)
def timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take RetryAfter's new form: python-telegram-bot warns about the old one as soon as it raises."""
    monkeypatch.setenv("PTB_TIMEDELTA", "true")


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(monotonic=Ticks()) as running:
        running.private(running.add_user("Ann", id=42))
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with Bot(DEFAULT_TOKEN, base_url=server.base_url) as connected:
        yield connected


def texts(server: TelegramServer) -> list[str]:
    return [message["text"] for message in server.posts()]


async def test_a_call_cut_before_it_was_carried_out_leaves_nothing(server: TelegramServer, bot: Bot) -> None:
    server.fault("sendMessage", "cut_before")
    with pytest.raises(NetworkError) as lost:
        await bot.send_message(42, "one")
    assert isinstance(lost.value.__cause__, httpx.RemoteProtocolError | httpx.ReadError)
    assert texts(server) == []
    await bot.send_message(42, "two")
    assert texts(server) == ["two"]


async def test_a_call_cut_afterwards_has_posted(server: TelegramServer, bot: Bot) -> None:
    server.fault("sendMessage", "cut_after")
    with pytest.raises(NetworkError):
        await bot.send_message(42, "one")
    assert texts(server) == ["one"]
    assert [call.status for call in server.calls if call.method == "sendMessage"] == [None]


async def test_a_slow_call_times_out_and_has_posted(server: TelegramServer, bot: Bot) -> None:
    server.fault("sendMessage", "slow", seconds=30)
    with pytest.raises(TimedOut):
        await bot.send_message(42, "one", read_timeout=0.2)
    assert texts(server) == ["one"]


async def test_a_held_answer_comes_when_it_is_let_go(server: TelegramServer, bot: Bot) -> None:
    held = server.fault("sendMessage", "hold")
    send = asyncio.create_task(bot.send_message(42, "one"))
    await server.wait_posts(1)
    assert not send.done()
    held.release()
    assert (await send).text == "one"
    assert (await bot.send_message(42, "two")).text == "two"


async def test_a_call_held_before_it_is_carried_out(server: TelegramServer, bot: Bot) -> None:
    held = server.fault("sendMessage", "hold_before")
    send = asyncio.create_task(bot.send_message(42, "one"))
    await server.changes.until(lambda: held.hits == 1, 5)
    assert texts(server) == []
    held.release()
    await send
    assert texts(server) == ["one"]


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ({"kind": "500"}, NetworkError, "Internal Server Error"),
        ({"kind": "502"}, NetworkError, r"Bad Gateway \(502\)"),
        ({"kind": "error", "code": 403, "description": "Forbidden: user is deactivated"}, TelegramError, "deactivated"),
    ],
)
async def test_a_refused_call_leaves_nothing(
    server: TelegramServer, bot: Bot, fault: dict[str, Any], error: type[TelegramError], words: str
) -> None:
    server.fault("sendMessage", **fault)
    with pytest.raises(error, match=words):
        await bot.send_message(42, "one")
    assert texts(server) == []


async def test_too_many_requests_say_how_long_to_wait(server: TelegramServer, bot: Bot) -> None:
    server.fault("sendMessage", "429", times=2, retry_after=37)
    for _ in range(2):
        with pytest.raises(RetryAfter) as told:
            await bot.send_message(42, "one")
        assert told.value.retry_after == timedelta(seconds=37)
    await bot.send_message(42, "one")
    assert texts(server) == ["one"]


async def test_a_fault_can_skip_calls_and_keep_to_one_chat(server: TelegramServer, bot: Bot) -> None:
    server.private(server.add_user("Bea", id=43))
    server.fault("sendMessage", "500", skip=1, chat=42)
    await bot.send_message(42, "part 1")
    await bot.send_message(43, "elsewhere")
    with pytest.raises(NetworkError):
        await bot.send_message(42, "part 2")
    await bot.send_message(42, "part 2 again")
    assert texts(server) == ["part 1", "elsewhere", "part 2 again"]


async def test_answers_that_cannot_be_trusted(server: TelegramServer, bot: Bot) -> None:
    server.has_topics_enabled = True
    topic = server.topic(42, "here", by=42)
    server.fault("sendMessage", "zero_id")
    assert (await bot.send_message(42, "scheduled video")).message_id == 0
    server.fault("sendMessage", "lose_thread")
    assert (await bot.send_message(42, "astray", message_thread_id=topic.id)).message_thread_id is None
    server.fault("sendMessage", "not_json")
    with pytest.raises(TelegramError, match="Invalid server response"):
        await bot.send_message(42, "a proxy's page")


async def test_closed_keep_alive_connections_do_not_matter_to_the_next_call(server: TelegramServer, bot: Bot) -> None:
    server.fault("sendMessage", "close")
    await bot.send_message(42, "one")
    await bot.send_message(42, "two")
    assert server.drop_connections(idle_only=True) >= 1
    await asyncio.sleep(0.05)
    await bot.send_message(42, "three")
    assert texts(server) == ["one", "two", "three"]


async def test_an_outage_cuts_calls_and_polls_until_it_ends(server: TelegramServer, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await server.changes.until(lambda: any(c.method == "getUpdates" for c in server.calls), 5)
    for kind in ("cut", "500", "502"):
        server.outage(kind)
        with pytest.raises(NetworkError):
            await bot.send_message(42, "lost")
    with pytest.raises(NetworkError):
        await poll
    server.outage(None)
    await bot.send_message(42, "back")
    assert texts(server) == ["back"]


async def test_a_server_that_is_down_refuses_connections_and_returns_on_its_port(
    server: TelegramServer, bot: Bot
) -> None:
    port = server.port
    await server.go_down()
    with pytest.raises(NetworkError, match="ConnectError"):
        await bot.send_message(42, "lost")
    await server.come_back()
    await bot.send_message(42, "back")
    assert (server.port, texts(server)) == (port, ["back"])


async def test_rates_are_enforced_when_asked(server: TelegramServer, bot: Bot) -> None:
    ticks = server._monotonic
    assert isinstance(ticks, Ticks)
    server.enforce_rates = True
    group = server.add_chat("group", "Ops")
    await bot.send_message(42, "one")
    with pytest.raises(RetryAfter) as told:
        await bot.send_message(42, "two")
    assert told.value.retry_after == timedelta(seconds=1)
    for number in range(20):
        await bot.send_message(group.id, str(number))
        ticks.at += 1
    with pytest.raises(RetryAfter) as told:
        await bot.send_message(group.id, "the 21st within a minute")
    assert told.value.retry_after == timedelta(seconds=40)
    ticks.at += 40
    await bot.send_message(group.id, "the 21st")


async def test_a_lost_day_of_updates_is_gone(server: TelegramServer, bot: Bot) -> None:
    server.say(42, 42, "yesterday")
    assert server.updates.expire() == 1
    server.updates.jump(12)
    server.say(42, 42, "today")
    assert [u.update_id for u in await bot.get_updates()] == [12]


async def test_a_revoked_token_is_refused(server: TelegramServer, bot: Bot) -> None:
    server.token = "7000000001:new"
    with pytest.raises(TelegramError, match="Unauthorized"):
        await bot.send_message(42, "x")


async def test_the_server_on_its_own_is_driven_over_http() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "servers.telegram", "--port", "0", "--token", DEFAULT_TOKEN),
        env={"PYTHONPATH": str(TESTS)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        url = json.loads(await process.stdout.readline())["url"]
        async with aiohttp.ClientSession(url) as http, Bot(DEFAULT_TOKEN, base_url=f"{url}/bot") as bot:

            async def do(verb: str, **arguments: Any) -> Any:
                async with http.post(f"/__test/{verb}", json=arguments) as answer:
                    return (await answer.json()).get("result", await answer.json())

            ann = await do("add_user", name="Ann")
            await do("private", user=ann["id"])
            said = await do("say", chat=ann["id"], user=ann["id"], text="hello")
            assert [u.message.text for u in await bot.get_updates() if u.message] == ["hello"]
            await do("fault", method="sendMessage", kind="error", description="Bad Request: chat not found")
            with pytest.raises(BadRequest):
                await bot.send_message(ann["id"], "lost")
            sent = await bot.send_message(ann["id"], "hi", reply_to_message_id=said["message_id"])
            posts = await do("wait_posts", count=1, chat=ann["id"])
            assert [m["message_id"] for m in posts] == [sent.message_id]
            assert "no such verb" in (await do("dance"))["error"]
            async with http.get("/__test/calls", params={"method": "sendMessage"}) as answer:
                assert [c["status"] for c in (await answer.json())["result"]] == [400, 200]
    finally:
        process.terminate()
        await process.wait()
