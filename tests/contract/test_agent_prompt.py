"""The prompt agent over the real openai SDK, against a strict provider."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiohttp import web
from servers.chat import ChatServer

from cron.agents.endpoint import Endpoint, Refused
from cron.agents.ports import BriefRequest, ComposeFailed, EarlierBrief
from cron.agents.prompt import TRIES, PromptAgent
from cron.model import AgentKind, AgentSpec, Job, JobId
from delivery.model import Address, ChatKind, InboundId
from seeding.model import Origin, Question, Role, SessionId, Turn
from seeding.ports import AnswerFailed

KEY = "sk-test-key-0123456789"
AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
UTC_ZONE = ZoneInfo("UTC")
PLACE = Address(account="local", workspace="local", chat="general", chat_kind=ChatKind.CHANNEL)
BRIEF = "3 builds failed:\n\n1. api\n2. web: a test timed out"


class Naps:
    """A sleep that notes how long it was asked to."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    async with ChatServer(api_key=KEY) as running:
        yield running


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
async def connect(naps: Naps) -> AsyncIterator[Callable[..., PromptAgent]]:
    """Make agents that are closed at the end."""
    made: list[PromptAgent] = []

    def new(base_url: str, **more: Any) -> PromptAgent:
        made.append(PromptAgent(spec(base_url, **more), sleep=naps))
        return made[-1]

    yield new
    for one in made:
        await one.close()


@pytest.fixture
def agent(server: ChatServer, connect: Callable[..., PromptAgent]) -> PromptAgent:
    return connect(server.base_url)


def spec(base_url: str | None, *, model: str = "test-model", key: str | None = KEY, **more) -> AgentSpec:
    return AgentSpec(name="default", kind=AgentKind.PROMPT, model=model, base_url=base_url, api_key=key, **more)


def request(*, previous: EarlierBrief | None = None, context: tuple[EarlierBrief, ...] = (), **more) -> BriefRequest:
    writer = spec("http://127.0.0.1:1/v1")
    job = Job(
        id=JobId("builds"),
        name="builds",
        schedules=("@daily",),
        timezone="UTC",
        writer=writer,
        answer_agent=writer,
        prompt="Which builds failed?",
        **more,
    )
    return BriefRequest(job=job, due=AT, run_id="run_1", previous=previous, context=context)


async def compose(agent: PromptAgent, **more) -> tuple[str, Mapping[str, object]]:
    async def started(group: int, ticks: int) -> None:
        raise AssertionError("no process is started")

    composed = await agent.compose(request(**more), started)
    return composed.text, composed.details


async def failure(agent: PromptAgent, **more) -> ComposeFailed:
    with pytest.raises(ComposeFailed) as caught:
        await compose(agent, **more)
    return caught.value


def turn(text: str, origin: Origin = Origin.INBOUND, **more) -> Turn:
    role = Role.ASSISTANT if origin is Origin.ANSWER else Role.USER
    return Turn(role=role, text=text, at=AT, origin=origin, **more)


def told(text: str = BRIEF, delivery: str = "dlv_1") -> Turn:
    return turn(f"[Cron delivery: builds]\n{text}", Origin.CRON, job="builds", delivery_id=delivery)


def question(*turns: Turn, briefs: frozenset[str] = frozenset()) -> Question:
    return Question(
        inbound_id=InboundId(1),
        session_id=SessionId("s"),
        job="builds",
        text=turns[-1].text,
        author="kim",
        address=PLACE,
        transcript=turns,
        briefs=briefs,
    )


def roles(server: ChatServer, number: int = -1) -> list[str]:
    return [message["role"] for message in server.requests[number]["messages"]]


# --- composing and answering ----------------------------------------------------------------------------


async def test_a_brief_is_asked_for_and_its_tokens_are_counted(server, agent):
    server.reply("3 builds failed.")
    assert await compose(agent) == ("3 builds failed.", {"tokens_in": len(_words(server)), "tokens_out": 3})
    assert (roles(server), server.requests[0]["status"]) == (["system", "user"], 200)
    assert server.requests[0]["messages"][1]["content"].startswith("Which builds failed?\n\nIt is due at 2026-12-01 08")


def _words(server: ChatServer) -> list[str]:
    return " ".join(message["content"] for message in server.requests[0]["messages"]).split()


async def test_what_was_written_before_is_handed_over_once(server, agent):
    before = EarlierBrief(job="builds", at=AT - timedelta(days=1), text="yesterday was fine")
    other = EarlierBrief(job="deploys", at=AT, text="two deploys")
    await compose(agent, previous=before, context=(before, other))
    asked = server.requests[0]["messages"][1]["content"]
    assert (asked.count("yesterday was fine"), asked.count("two deploys")) == (1, 1)
    assert "The previous brief of this job, written 2026-11-30 08:00+00:00:" in asked


async def test_instructions_come_before_what_makes_a_brief_and_an_answer(server, connect):
    agent = connect(server.base_url, instructions="You are terse.")
    await compose(agent)
    await agent.answer(question(told(), turn("why?")), UTC_ZONE)
    for asked, part in zip(server.requests, ("[SILENT]", "[Cron delivery: NAME]"), strict=True):
        system = asked["messages"][0]["content"]
        assert (system.startswith("You are terse."), part in system) == (True, True)


async def test_a_question_about_a_brief_is_one_strict_request_with_the_brief_in_it(server, agent):
    server.reply("It timed out.\n")
    assert await agent.answer(question(told(), turn("why did the second fail?")), UTC_ZONE) == "It timed out."
    asked = server.requests[0]["messages"][1]["content"]
    assert (roles(server), BRIEF in asked, asked.endswith("why did the second fail?")) == (
        ["system", "user"],
        True,
        True,
    )


async def test_the_model_is_told_when_briefs_and_questions_were_written_in_the_zone_of_the_job(server, agent):
    await agent.answer(question(told(), turn("when?")), ZoneInfo("Europe/Berlin"))
    system, user = (message["content"] for message in server.requests[0]["messages"])
    assert "(delivered 2026-12-01 09:00+01:00)" in user
    assert system.endswith("The newest message was written at 2026-12-01 09:00+01:00.")


@pytest.mark.parametrize(
    "turns",
    [
        (told(), told("all is well", "dlv_2"), turn("hm?", author="kim"), turn("and?", author="alex")),
        (told(), turn("why?"), turn("It timed out.", Origin.ANSWER), told("again", "dlv_2"), turn("and now?")),
        (turn("Good morning!", Origin.ANSWER), turn("hi"), turn("hello", Origin.ANSWER), told(), turn("why?")),
        (turn("hi"), turn("one", Origin.ANSWER), turn("two", Origin.ANSWER), told(), turn("  "), turn("why?")),
    ],
    ids=["two briefs, two people", "an answer in between", "it spoke first", "two answers in a row"],
)
async def test_whatever_a_chat_looks_like_a_strict_provider_takes_it(server, agent, turns):
    answer = await agent.answer(question(*turns), UTC_ZONE)
    assert (server.requests[0]["status"], answer.endswith(turns[-1].text)) == (200, True)


async def test_several_questions_at_once_do_not_disturb_each_other(server, agent):
    answers = await asyncio.gather(*(agent.answer(question(turn(f"question {n}")), UTC_ZONE) for n in range(8)))
    assert [answer.removeprefix("You said: ") for answer in answers] == [f"question {n}" for n in range(8)]


# --- what a provider does ---------------------------------------------------------------------------------


async def test_a_429_is_tried_again_when_the_server_says(server, agent, naps):
    server.fault("429", retry_after=37)
    server.reply("fine")
    assert ((await compose(agent))[0], naps.seconds, len(server.requests)) == ("fine", [37.0], 2)


async def test_an_overloaded_server_is_tried_again_after_growing_waits(server, agent, naps):
    server.fault("503", times=2)
    server.fault("500", times=1)
    server.reply("fine")
    assert ((await compose(agent))[0], naps.seconds) == ("fine", [1.0, 2.0, 4.0])


async def test_a_server_that_stays_overloaded_is_given_up_with_its_reason(server, agent):
    server.fault("503", times=TRIES)
    failed = await failure(agent)
    assert (failed.reason, failed.is_transient, len(server.requests)) == (
        "The model's server answered 503: The engine is overloaded",
        True,
        TRIES,
    )


async def test_a_wait_longer_than_the_time_limit_is_not_begun(server, agent, naps):
    server.fault("429", retry_after=3600)
    failed = await failure(agent, timeout=timedelta(minutes=10))
    assert (failed.is_transient, naps.seconds, len(server.requests)) == (True, [], 1)


async def test_a_used_up_quota_is_no_matter_of_waiting(server, agent, naps):
    server.fault("quota")
    failed = await failure(agent)
    assert (failed.is_transient, naps.seconds, "exceeded your current quota" in failed.reason) == (False, [], True)


async def test_a_model_that_does_not_exist_fails_at_once_with_the_providers_reason(server, naps, connect):
    agent = connect(server.base_url, model="gpt-wrong")
    failed = await failure(agent)
    with pytest.raises(AnswerFailed, match="The model `gpt-wrong` does not exist"):
        await agent.answer(question(told(), turn("why?")), UTC_ZONE)
    assert failed.reason.startswith("The model's server answered 404: The model `gpt-wrong` does not exist")
    assert (failed.is_transient, naps.seconds, len(server.requests)) == (False, [], 2)


async def test_a_wrong_key_fails_at_once(server, connect):
    agent = connect(server.base_url, key="wrong")
    failed = await failure(agent)
    assert (failed.is_transient, failed.reason) == (
        False,
        "The model's server answered 401: Incorrect API key provided: wr***",
    )


@pytest.mark.parametrize("kind", ["empty", "no_choices"])
async def test_an_empty_answer_is_a_failure(server, agent, kind):
    server.fault(kind, times=TRIES)
    await failure(agent)
    server.fault(kind, times=TRIES)
    with pytest.raises(AnswerFailed):
        await agent.answer(question(turn("why?")), UTC_ZONE)


@pytest.mark.parametrize("kind", ["cut", "cut_mid", "stream_error"])
async def test_a_broken_connection_is_tried_again_and_half_an_answer_is_never_used(server, agent, kind):
    server.fault(kind)
    server.reply("one two three four five six", "a whole answer")
    text, _ = await compose(agent)
    assert (text in ("a whole answer", "one two three four five six"), len(server.requests)) == (True, 2)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("cut_mid", "The model's answer broke off in the middle."),
        ("stream_error", "The model's server broke off: The server had an error while processing your request"),
    ],
)
async def test_an_answer_that_always_breaks_off_is_a_failure(server, agent, kind, reason):
    server.fault(kind, times=TRIES)
    with pytest.raises(AnswerFailed) as caught:
        await agent.answer(question(told(), turn("why?")), UTC_ZONE)
    assert (caught.value.reason, len(server.requests)) == (reason, TRIES)


async def test_a_stream_that_stalls_is_given_up(server):
    server.fault("stall")
    server.reply("one two three four five six")
    endpoint = Endpoint(model="test-model", base_url=server.base_url, api_key=KEY, stall_limit=0.05)
    with pytest.raises(Refused, match=r"stalled in the middle") as caught:
        await endpoint.ask([{"role": "user", "content": "hi"}])
    await endpoint.close()
    assert caught.value.is_transient


async def test_who_waits_may_stop_waiting_and_the_next_answer_comes(server, agent):
    server.fault("hold")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await compose(agent)
    server.reply("fine")
    assert (await compose(agent))[0] == "fine"


async def test_a_transcript_that_is_too_long_for_the_model_is_sent_again_in_less_with_the_brief_in_it(server, agent):
    server.fault("context")
    talk = [turn(f"{n} " + "word " * 2_000) if n % 2 else turn("word " * 2_000, Origin.ANSWER) for n in range(20)]
    await agent.answer(question(told(), *talk, turn("why?"), briefs=frozenset({"dlv_1"})), UTC_ZONE)
    sizes = [sum(len(message["content"]) for message in asked["messages"]) for asked in server.requests]
    held = [any(BRIEF in message["content"] for message in asked["messages"]) for asked in server.requests]
    assert (len(sizes), sizes[1] < sizes[0] / 2, held, server.requests[1]["status"]) == (2, True, [True, True], 200)


async def test_what_cannot_be_made_shorter_is_a_failure_with_the_providers_reason(server, agent):
    server.fault("context", times=9)
    with pytest.raises(AnswerFailed, match="maximum context length"):
        await agent.answer(question(told(), turn("why?")), UTC_ZONE)
    assert len(server.requests) == 1


# --- where it is asked ------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_named_with_the_cause(unused_port, naps, connect):
    agent = connect(f"http://127.0.0.1:{unused_port}/v1")
    failed = await failure(agent)
    assert (failed.is_transient, len(naps.seconds)) == (True, TRIES - 1)
    assert failed.reason.startswith(f"The model at http://127.0.0.1:{unused_port}/v1 cannot be reached: ")


async def test_a_base_url_with_a_wrong_path_fails_at_once(server, connect):
    agent = connect(server.base_url.removesuffix("/v1"))
    failed = await failure(agent)
    assert failed.reason.startswith("The model's server answered 404: nothing is there; is http://127.0.0.1:")
    assert not failed.is_transient


async def test_a_base_url_that_is_a_website_is_told_so(connect):
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html><body>Welcome</body></html>", content_type="text/html")

    async with Site(page) as url:
        failed = await failure(connect(url))
    assert (failed.is_transient, "is that the base_url of an OpenAI-compatible server?" in failed.reason) == (
        False,
        True,
    )


async def test_a_key_is_not_needed(connect):
    async with ChatServer() as open_server:
        agent = connect(open_server.base_url, key=None)
        assert (await compose(agent))[0]


# --- servers that are less than OpenAI's -------------------------------------------------------------------


async def test_a_server_that_does_not_know_stream_options_is_asked_once_more_without(connect):
    asked: list[bool] = []

    async def old(request: web.Request) -> web.StreamResponse:
        asked.append("stream_options" in await request.json())
        if asked[-1]:
            return web.json_response(
                {"detail": [{"loc": ["body", "stream_options"], "msg": "not permitted"}]}, status=422
            )
        return await _stream(request, {"delta": {"content": "fine"}}, {"delta": {}, "finish_reason": "stop"})

    async with Site(old) as url:
        agent = connect(url)
        assert (await compose(agent), await compose(agent)) == (("fine", {}), ("fine", {}))
    assert asked == [True, False, False]


async def test_chunks_with_little_in_them_and_parts_instead_of_text_are_understood(connect):
    async def odd(request: web.Request) -> web.StreamResponse:
        parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "fi"}]
        return await _stream(
            request,
            None,
            {"delta": {"role": "assistant", "content": None}},
            {"delta": {"content": parts}},
            {"delta": {"content": "ne"}, "finish_reason": "stop"},
        )

    async with Site(odd) as url:
        agent = connect(url)
        assert await compose(agent) == ("fine", {})


async def test_a_connection_that_is_cut_after_the_end_of_the_answer_loses_nothing(connect):
    async def hasty(request: web.Request) -> web.StreamResponse:
        response = await _stream(
            request, {"delta": {"content": "fine"}}, {"delta": {}, "finish_reason": "stop"}, end=False
        )
        assert request.transport is not None
        request.transport.abort()
        return response

    async with Site(hasty) as url:
        agent = connect(url)
        assert (await compose(agent))[0] == "fine"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "used up its tokens"), ("content_filter", "content filter"), ("stop", "answered nothing")],
)
async def test_an_empty_answer_says_why(finish, reason, connect):
    async def mute(request: web.Request) -> web.StreamResponse:
        return await _stream(request, {"delta": {}, "finish_reason": finish})

    async with Site(mute) as url:
        agent = connect(url)
        assert reason in (await failure(agent)).reason


async def test_a_brief_that_was_cut_by_a_limit_is_noted(connect):
    async def short(request: web.Request) -> web.StreamResponse:
        return await _stream(request, {"delta": {"content": "half"}, "finish_reason": "length"})

    async with Site(short) as url:
        agent = connect(url)
        assert await compose(agent) == ("half", {"cut": True})


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"retry-after-ms": "1500"}, [1.5]),
        ({"retry-after": "Tue, 01 Dec 2026 08:00:42 GMT", "date": "Tue, 01 Dec 2026 08:00:00 GMT"}, [42.0]),
        ({"retry-after": "soon"}, [1.0]),
        ({"retry-after": "-5"}, [1.0]),
    ],
)
async def test_every_way_to_say_when_is_understood(naps, headers, waits, connect):
    busy = [True]

    async def later(request: web.Request) -> web.StreamResponse:
        if busy and busy.pop():
            return web.json_response({"error": {"message": "later"}}, status=429, headers=headers)
        return await _stream(request, {"delta": {"content": "fine"}, "finish_reason": "stop"})

    async with Site(later) as url:
        agent = connect(url)
        assert ((await compose(agent))[0], naps.seconds) == ("fine", waits)


# --- life ---------------------------------------------------------------------------------------------------


async def test_closing_waits_for_the_answer_that_is_under_way_and_may_be_repeated(server, connect):
    agent = connect(server.base_url)
    held = server.fault("hold")
    server.reply("late but whole")
    composing = asyncio.create_task(compose(agent))
    await server.wait_requests(1)
    await agent.close()
    held.release()
    assert (await composing)[0] == "late but whole"
    await agent.close()


async def test_the_sdk_is_never_imported_by_the_event_loop(server):
    """Half a second in which nobody is answered: so every import of it happens in another thread."""
    script = textwrap.dedent(f"""
        import asyncio, sys, threading

        async def answer():
            from cron.agents.endpoint import Endpoint
            endpoint = Endpoint(model="test-model", base_url={server.base_url!r}, api_key={KEY!r})
            loaded = set(sys.modules)
            main = threading.current_thread()
            seen = []
            def look(event, args):
                if event == "import" and threading.current_thread() is main and args[0] not in sys.modules:
                    seen.append(args[0])
            sys.addaudithook(look)
            said = await endpoint.ask([{{"role": "user", "content": "hi"}}])
            await endpoint.close()
            late = [name for name in seen if name.partition(".")[0] in ("openai", "httpx", "httpx2", "pydantic")]
            print(said.text, "openai" in loaded, late)

        asyncio.run(answer())
    """)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=subprocess.PIPE, cwd=Path(__file__).resolve().parents[2]
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "You said: hi False []"


# --- a bare server --------------------------------------------------------------------------------------------


class Site:
    """Any handler on loopback; entering returns a base_url."""

    def __init__(self, handler) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)

    async def __aenter__(self) -> str:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


async def _stream(request: web.Request, *choices: dict | None, end: bool = True) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for choice in choices:
        await response.write(b"data: " + web.json_response({"choices": choice and [choice]}).body + b"\n\n")
    if end:
        await response.write(b"data: [DONE]\n\n")
    return response


@pytest.fixture
def unused_port(unused_tcp_port: int) -> int:
    return unused_tcp_port
