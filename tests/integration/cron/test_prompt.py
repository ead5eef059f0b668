"""A prompt job on the local platform: the model writes the brief, and answers with it before its eyes."""

import pytest
from daemonbed import daemon, until
from servers.chat import ChatServer
from servers.chat_strict import text_of

from cron.agents.ports import ComposeFailed

KEY = "sk-test-0123456789abcdef"
BRIEF = "Three builds failed:\n\n1. api: out of memory\n2. web: a test timed out\n3. docs: a dead link"
CONFIG = """
    agents:
      default: {{kind: prompt, model: {model}, base_url: "{url}", api_key: "{key}"{more}}}
    jobs:
      builds: {{schedule: in 1h, prompt: "Which builds failed?", timeout: {timeout}}}
      deploys: {{schedule: in 1h, prompt: "What was deployed?", context_from: [builds]}}
      script: {{schedule: in 1h, command: [echo, "disk: 93 % full"]}}
"""


@pytest.fixture
async def server():
    async with ChatServer(api_key=KEY) as running:
        yield running


def config(server: ChatServer, *, model: str = "test-model", timeout: str = "10m", more: str = "") -> str:
    return CONFIG.format(url=server.base_url, key=KEY, model=model, timeout=timeout, more=more)


async def run(running, job: str) -> dict:
    control = running.wired.control
    return await control.wait(await control.trigger(job))


def asked(server: ChatServer, number: int = -1) -> str:
    """Return all that a request's user and assistant messages say."""
    return "\n".join(text_of(one) for one in server.requests[number]["messages"][1:])


def refused(server: ChatServer) -> list[dict]:
    return [one for one in server.requests if one["status"] != 200]


async def test_a_model_writes_the_brief_and_answers_flat_and_in_the_thread_with_it(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.reply(BRIEF, "It timed out.", "It ran out of memory.")
        delivery = (await run(running, "builds"))["deliveries"][0]
        brief = (await running.local())[0]
        flat = await running.answer_to("why did the second one fail?")
        threaded = await running.answer_to("and the first?", thread=brief["id"])
        held = [await running.transcript(delivery[f"{surface}_session"]) for surface in ("flat", "thread")]
    assert (brief["text"], brief["job"]) == (BRIEF, "builds")
    assert (flat["text"], flat["thread"]) == ("It timed out.", None)
    assert (threaded["text"], threaded["thread"]) == ("It ran out of memory.", brief["id"])
    assert [[turn["origin"] for turn in turns] for turns in held] == [["cron", "inbound", "answer"]] * 2
    assert ([BRIEF in asked(server, n) for n in (1, 2)], refused(server)) == ([True, True], [])
    assert "why did the second one fail?" not in asked(server, 2)


async def test_the_tokens_of_a_brief_are_stored_with_its_run(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.reply("one two three")
        row = await run(running, "builds")
        shown = await running.read(lambda conn: _details(conn, row["run"]))
    assert (shown["tokens_out"], shown["tokens_in"] > 20) == (3, True)


def _details(conn, run_id: str) -> dict:
    from sqlalchemy import select

    from state.schema import runs

    return conn.execute(select(runs.c.details).where(runs.c.id == run_id)).scalar_one()


async def test_a_chat_full_of_briefs_people_and_answers_is_one_strict_request(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.reply("builds one", "deploys one", "Not much.", "Indeed.")
        for job in ("builds", "deploys", "script"):
            await run(running, job)
        await running.answer_to("what is up?")
        await running.say("a remark", author="alex")
        await until(lambda: len(server.requests) == 4, "the second question")
        server.reply("builds two")
        await run(running, "builds")
        await run(running, "script")
        last = await running.answer_to("and now?")
        spoken = asked(server)
    assert last["text"].endswith("kim: and now?")
    assert (refused(server), [m["role"] for m in server.requests[-1]["messages"]][:2]) == ([], ["system", "user"])
    order = [
        "builds one",
        "deploys one",
        "disk: 93 %",
        "kim: what is up?",
        "alex: a remark",
        "builds two",
        "kim: and now?",
    ]
    places = [spoken.find(words) for words in order]
    assert (-1 not in places, places == sorted(places), spoken.count("disk: 93 %")) == (True, True, 2)


async def test_a_job_is_given_its_previous_brief_and_those_of_other_jobs(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.reply("builds one", "deploys one", "deploys two")
        for job in ("builds", "deploys", "deploys"):
            await run(running, job)
    assert [text in asked(server, 1) for text in ("builds one", "deploys one")] == [True, False]
    assert [text in asked(server, 2) for text in ("builds one", "deploys one")] == [True, True]


async def test_after_a_restart_the_model_is_given_the_brief_and_what_was_said(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.reply(BRIEF, "It timed out.")
        await run(running, "builds")
        brief = (await running.local())[0]
        await running.answer_to("why did the second one fail?", thread=brief["id"])
    async with daemon(tmp_path) as running:
        await running.answer_to("sure?", thread=brief["id"])
    spoken = asked(server)
    assert [words in spoken for words in (BRIEF, "why did the second one fail?", "It timed out.", "sure?")] == [
        True
    ] * 4
    assert (refused(server), [m["role"] for m in server.requests[-1]["messages"]]) == (
        [],
        ["system", "user", "assistant", "user"],
    )


async def test_a_model_that_has_nothing_to_say_posts_nothing(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.reply("[SILENT]")
        row = await run(running, "builds")
        posts = await running.local()
    assert (row["outcome"], row["deliveries"], posts) == ("silent", [], [])


# --- failures are told -----------------------------------------------------------------------------------


async def test_a_wrong_model_is_a_failed_run_with_the_providers_reason_and_a_notice(tmp_path, server):
    async with daemon(tmp_path, config(server, model="gpt-wrong").replace("in 1h, prompt", "in 1s, prompt")) as running:
        row = await running.run_of("builds")
        notice = await until(lambda: running.local("alerts"), "a notice")
        posts = await running.local()
    assert (row["outcome"], row["deliveries"], posts) == ("failed", [], [])
    assert "404: The model `gpt-wrong` does not exist" in row["error"]
    assert "404: The model `gpt-wrong` does not exist" in notice[0]["text"]


async def test_an_empty_answer_of_a_model_is_a_failed_run(tmp_path, server):
    async with daemon(tmp_path, config(server)) as running:
        server.fault("empty")
        row = await run(running, "builds")
    assert (row["outcome"], row["error"]) == ("failed", "The model answered nothing.")


async def test_a_model_that_stalls_is_ended_at_the_jobs_timeout(tmp_path, server):
    async with daemon(tmp_path, config(server, timeout="1s")) as running:
        server.fault("hold", times=9)
        row = await run(running, "builds")
    assert (row["outcome"], "timeout of 1s" in row["error"]) == ("failed", True)


async def test_who_asks_is_told_why_there_is_no_answer_and_the_next_question_is_answered(tmp_path, server):
    async with daemon(tmp_path, config(server, more=", timeout: 1s")) as running:
        server.reply(BRIEF)
        await run(running, "builds")
        server.fault("hold")
        slow = await running.answer_to("why?")
        server.fault("404")
        wrong = await running.answer_to("why?")
        fine = await running.answer_to("and now?")
    assert slow["text"] == "The agent 'default' took longer than 1s."
    assert "404" in wrong["text"]
    assert fine["text"].endswith("and now?")


async def test_a_provider_that_repeats_the_key_does_not_give_it_away(tmp_path, server, caplog):
    caplog.set_level("DEBUG")
    async with daemon(tmp_path, config(server)) as running:
        server.fault("error", times=3, message=f"Your key {KEY} is not for this.")
        row = await run(running, "builds")
        told = await running.answer_to("why?")
        with pytest.raises(ComposeFailed) as dry:
            await running.wired.control.dry_run("builds")
    assert ("[secret]" in row["error"], KEY in row["error"]) == (True, False)
    assert ("[secret]" in told["text"], KEY in told["text"]) == (True, False)
    assert ("[secret]" in dry.value.reason, KEY in caplog.text) == (True, False)
