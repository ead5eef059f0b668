"""The strict chat server, as the real openai SDK sees it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI
from servers.chat import ChatServer

TESTS = Path(__file__).resolve().parents[1]
KEY = "sk-test-key"


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with ChatServer(api_key=KEY, models=["test-model", "other"]) as running:
        yield running


@pytest.fixture
async def client(server: ChatServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.base_url, api_key=KEY, max_retries=0) as connected:
        yield connected


def turns(*texts: str, system: str | None = None) -> Any:
    roles = ("user", "assistant")
    spoken = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return ([{"role": "system", "content": system}] if system else []) + spoken


async def ask(client: AsyncOpenAI, *texts: str, **more: Any) -> Any:
    return await client.chat.completions.create(model="test-model", messages=turns(*texts), **more)


async def streamed(client: AsyncOpenAI, *texts: str, **more: Any) -> list[Any]:
    return [chunk async for chunk in await ask(client, *texts, stream=True, **more)]


async def test_the_default_answer_quotes_the_last_question(client: AsyncOpenAI) -> None:
    answer = await ask(client, "3 builds failed", "I told them.", "why did the second fail?")
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("You said: why did the second fail?", "stop")


async def test_scripted_answers_come_in_order_and_are_counted(server: ChatServer, client: AsyncOpenAI) -> None:
    server.reply("one  two\nthree", "four")
    first = await ask(client, "a b c", "d", "e f")
    assert first.choices[0].message.content == "one  two\nthree"
    usage = first.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 3, 9)
    assert (await ask(client, "x")).choices[0].message.content == "four"
    assert (await ask(client, "x")).choices[0].message.content == "You said: x"


async def test_a_stream_brings_the_same_text_and_its_usage(server: ChatServer, client: AsyncOpenAI) -> None:
    server.reply("one  two\nthree \n")
    chunks = await streamed(client, "x", stream_options={"include_usage": True})
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "one  two\nthree \n"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None and chunks[-1].choices == []
    assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) > 2


async def test_an_answer_over_the_limit_is_cut_and_says_so(server: ChatServer, client: AsyncOpenAI) -> None:
    server.reply("one two three")
    choice = (await ask(client, "x", max_completion_tokens=2)).choices[0]
    assert (choice.message.content.split(), choice.finish_reason) == (["one", "two"], "length")


async def test_what_was_asked_is_recorded(server: ChatServer, client: AsyncOpenAI) -> None:
    await client.chat.completions.create(model="other", messages=turns("hello", system="be brief"), temperature=0)
    (request,) = server.requests
    assert request["messages"] == turns("hello", system="be brief")
    assert (request["model"], request["temperature"], request["status"]) == ("other", 0, 200)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([("assistant", "brief"), ("user", "why?")], r"must alternate.*messages\[0\] is 'assistant'"),
        ([("user", "brief"), ("user", "why?")], r"must alternate.*messages\[1\] is 'user'"),
        ([("user", "a"), ("assistant", "b"), ("assistant", "c"), ("user", "d")], r"messages\[2\] is 'assistant'"),
        ([("system", "s"), ("system", "t"), ("user", "a")], r"messages\[1\] is 'system'"),
        ([("user", "a"), ("system", "s"), ("user", "b")], r"messages\[1\] is 'system'"),
        ([("user", "a"), ("assistant", "b")], "Expected last role user"),
        ([("user", " \n")], r"messages\[0\].content.*must not be empty"),
        ([("system", ""), ("user", "a")], r"messages\[0\].content.*must not be empty"),
        ([], "non-empty array"),
    ],
)
async def test_messages_that_strict_providers_refuse(
    server: ChatServer, client: AsyncOpenAI, messages: Any, words: str
) -> None:
    sent: Any = [{"role": role, "content": content} for role, content in messages]
    with pytest.raises(openai.BadRequestError, match=words):
        await client.chat.completions.create(model="test-model", messages=sent)
    assert server.requests[0]["status"] == 400


async def test_a_wrong_key_and_an_unknown_model(server: ChatServer, client: AsyncOpenAI) -> None:
    async with AsyncOpenAI(base_url=server.base_url, api_key="sk-wrong-key", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError, match="Incorrect API key") as refused:
            await ask(stranger, "x")
        assert "wrong-key" not in str(refused.value)
        with pytest.raises(openai.AuthenticationError):
            await stranger.models.list()
    with pytest.raises(openai.NotFoundError, match="`gpt-none` does not exist"):
        await client.chat.completions.create(model="gpt-none", messages=turns("x"))
    assert [model.id async for model in client.models.list()] == ["test-model", "other"]


async def test_too_many_requests_say_how_long_to_wait(server: ChatServer, client: AsyncOpenAI) -> None:
    server.fault("429", times=2, retry_after=7)
    for _ in range(2):
        with pytest.raises(openai.RateLimitError) as told:
            await ask(client, "x")
        assert told.value.response.headers["retry-after"] == "7"
    assert (await ask(client, "x")).choices


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "500"}, openai.InternalServerError),
        ({"kind": "503", "retry_after": 1}, openai.InternalServerError),
        ({"kind": "404"}, openai.NotFoundError),
        ({"kind": "quota"}, openai.RateLimitError),
        ({"kind": "context"}, openai.BadRequestError),
        ({"kind": "error", "code": 422, "message": "odd"}, openai.UnprocessableEntityError),
        ({"kind": "cut"}, openai.APIConnectionError),
        ({"kind": "cut_mid"}, openai.APIConnectionError),
    ],
)
async def test_a_fault_strikes_once(
    server: ChatServer, client: AsyncOpenAI, fault: dict[str, Any], error: type[openai.APIError]
) -> None:
    server.fault(**fault)
    with pytest.raises(error):
        await ask(client, "x")
    assert (await ask(client, "x")).choices[0].message.content == "You said: x"


async def test_the_sdk_itself_retries_when_told_to(server: ChatServer) -> None:
    server.fault("500", skip=1)
    async with AsyncOpenAI(base_url=server.base_url, api_key=KEY, max_retries=1) as patient:
        await ask(patient, "one")
        await ask(patient, "two")
    assert [r["status"] for r in server.requests] == [200, 500, 200]


async def test_a_stream_can_break_off(server: ChatServer, client: AsyncOpenAI) -> None:
    server.reply("one two three four five six")
    server.fault("cut_mid")
    got: list[str] = []
    with pytest.raises(openai.APIConnectionError):
        async for chunk in await ask(client, "x", stream=True):
            got.append(chunk.choices[0].delta.content or "")
    assert 0 < len("".join(got)) < len("one two three four five six")


async def test_a_stream_can_report_an_error(server: ChatServer, client: AsyncOpenAI) -> None:
    server.fault("stream_error")
    with pytest.raises(openai.APIError, match="server had an error"):
        await streamed(client, "one two three four")


async def test_a_stream_can_stall_and_go_on(server: ChatServer, client: AsyncOpenAI) -> None:
    stall = server.fault("stall")
    reading = asyncio.create_task(streamed(client, "one two three"))
    while not stall.hits:
        await server.wait_requests(1)
        await asyncio.sleep(0)
    assert not reading.done()
    stall.release()
    assert (await reading)[-1].choices[0].finish_reason == "stop"


async def test_a_held_and_a_slow_answer(server: ChatServer, client: AsyncOpenAI) -> None:
    held = server.fault("hold")
    asking = asyncio.create_task(ask(client, "x"))
    await server.wait_requests(1)
    assert not asking.done()
    held.release()
    assert (await asking).choices
    server.fault("slow", seconds=30)
    with pytest.raises(openai.APITimeoutError):
        await ask(client, "x", timeout=0.2)


async def test_an_answer_can_be_empty(server: ChatServer, client: AsyncOpenAI) -> None:
    server.fault("empty", times=2)
    assert (await ask(client, "x")).choices[0].message.content == ""
    assert all(not c.choices[0].delta.content for c in await streamed(client, "x"))
    server.fault("no_choices")
    assert (await ask(client, "x")).choices == []


async def test_the_server_on_its_own_is_driven_over_http() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "servers.chat", "--port", "0", "--api-key", KEY, "--model", "m"),
        env={"PYTHONPATH": str(TESTS)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        told = json.loads(await process.stdout.readline())
        root = told["base_url"].removesuffix("/v1")
        async with aiohttp.ClientSession(root) as http, AsyncOpenAI(base_url=told["base_url"], api_key=KEY) as client:

            async def do(verb: str, **arguments: Any) -> Any:
                async with http.post(f"/__test/{verb}", json=arguments) as answer:
                    return await answer.json()

            await do("reply", texts=["scripted"])
            await do("fault", kind="500")
            answer = await client.chat.completions.create(model="m", messages=turns("x"))
            assert answer.choices[0].message.content == "scripted"
            asked = (await do("wait_requests", count=2))["result"]
            assert [r["status"] for r in asked] == [500, 200]
            assert "no such verb" in (await do("dance"))["error"]
    finally:
        process.terminate()
        await process.wait()
