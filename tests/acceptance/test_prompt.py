"""A prompt job on Slack: a strict provider writes the brief and answers it, flat, in threads, after a restart."""

import pytest
from processbed import Process, process, until
from servers.chat import ChatServer
from servers.chat_strict import text_of
from servers.slack import SlackServer

KEY = "sk-test-0123456789abcdef"
BRIEF = "Three builds failed:\n\n1. api: out of memory\n2. web: a test timed out\n3. docs: a dead link"
CONFIG = """
    accounts:
      slack: {{bot_token: "{bot}", app_token: "{app}", base_url: "{url}"}}
    targets:
      ops: {{to: "slack:#ops", listen: all}}
    agents:
      default: {{kind: prompt, model: test-model, base_url: "{model}", api_key: "${{MODEL_KEY}}"}}
    defaults: {{deliver: [ops], surface: {surface}}}
    jobs:
      builds: {{schedule: in 1h, prompt: "Which builds failed?"}}
      disk: {{schedule: in 1h, command: [echo, "disk: 93 % full"]}}
      deploys: {{schedule: in 1h, prompt: "What was deployed?", context_from: [builds, disk]}}
"""


@pytest.fixture
async def slack():
    async with SlackServer() as running:
        yield running


@pytest.fixture
async def model():
    async with ChatServer(api_key=KEY) as running:
        yield running


def started(folder, slack: SlackServer, model: ChatServer, *, surface: str = "flat"):
    text = CONFIG.format(
        bot=slack.bot_token, app=slack.app_token, url=slack.api_url, model=model.base_url, surface=surface
    )
    return process(folder, text, environ={"MODEL_KEY": KEY})


async def run(daemon: Process, job: str) -> dict:
    """Run a job and return its delivery, which was sent and seeded."""
    code, out, err = await daemon.cli("trigger", job, "--wait", "--json")
    assert code == 0, f"{out}{err}{daemon.log()}"
    delivery = (await daemon.json("runs", "--job", job))[0]["deliveries"][0]
    assert (delivery["state"], delivery["flat_seeded"], delivery["thread_seeded"]) == ("sent", True, True)
    return delivery


async def answer_of(slack: SlackServer, daemon: Process, ts: str):
    return await until(
        lambda: next((post for post in slack.posts() if float(post.ts) > float(ts)), None), "an answer", daemon
    )


def asked(model: ChatServer, number: int = -1) -> str:
    return "\n".join(text_of(one) for one in model.requests[number]["messages"][1:])


def statuses(model: ChatServer) -> set[int]:
    return {one["status"] for one in model.requests}


@pytest.mark.parametrize("surface", ["flat", "thread"])
async def test_a_prompt_job_is_answered_flat_in_its_thread_and_after_a_restart(tmp_path, slack, model, surface):
    async with started(tmp_path, slack, model, surface=surface) as daemon:
        await slack.connected()
        model.reply(BRIEF, "It timed out.", "It ran out of memory.", "A dead link.")
        delivery = await run(daemon, "builds")
        root = delivery["root"] or delivery["message_ids"][0]
        flat = await answer_of(slack, daemon, slack.say("#ops", "kim", "why did the second one fail?"))
        threaded = await answer_of(slack, daemon, slack.say("#ops", "kim", "and the first?", thread_ts=root))
        await daemon.restart()
        await slack.connected()
        later = await answer_of(slack, daemon, slack.say("#ops", "alex", "and the last?", thread_ts=root))
        posted = next(post for post in slack.posts("#ops") if post.ts == delivery["message_ids"][0])
    assert "a test timed out" in posted.text
    assert [(post.text, post.thread_ts) for post in (flat, threaded, later)] == [
        ("It timed out.", None),
        ("It ran out of memory.", root),
        ("A dead link.", root),
    ]
    assert [BRIEF in asked(model, n) for n in (1, 2, 3)] == [True] * 3
    assert ["why did the second one fail?" in asked(model, n) for n in (1, 2, 3)] == [True, False, False]
    assert ("It ran out of memory." in asked(model, 3), statuses(model)) == (True, {200})
    assert KEY not in daemon.log()


async def test_a_channel_full_of_briefs_people_and_answers_stays_what_a_strict_provider_takes(tmp_path, slack, model):
    async with started(tmp_path, slack, model) as daemon:
        await slack.connected()
        model.reply("builds one")
        await run(daemon, "builds")
        await run(daemon, "disk")
        model.reply("deploys one")
        deploys = await run(daemon, "deploys")
        assert ["builds one" in asked(model), "disk: 93 % full" in asked(model)] == [True, True]
        model.reply("Not much.", "Indeed.", "A whale.", "Never.")
        await answer_of(slack, daemon, slack.say("#ops", "kim", "what is up?"))
        await answer_of(slack, daemon, slack.say("#ops", "alex", "much, I hear"))
        await run(daemon, "disk")
        root = deploys["message_ids"][0]
        await answer_of(slack, daemon, slack.say("#ops", "alex", "what was it?", thread_ts=root))
        await answer_of(slack, daemon, slack.say("#ops", "kim", "and now?"))
        flat, threaded = asked(model, -1), asked(model, -2)
    assert statuses(model) == {200}
    order = [
        "builds one",
        "disk: 93 %",
        "deploys one",
        "what is up?",
        "Not much.",
        "much, I hear",
        "Indeed.",
        "and now?",
    ]
    places = [flat.find(words) for words in order]
    assert (-1 not in places, places == sorted(places), flat.count("disk: 93 %")) == (True, True, 2)
    assert ("deploys one" in threaded, "builds one" in threaded, "Not much." in threaded) == (True, False, False)


async def test_a_model_that_is_not_there_is_a_failed_run_that_names_the_cause(tmp_path, slack, model):
    async with started(tmp_path, slack, model) as daemon:
        model.fault("404")
        code, _, _ = await daemon.cli("trigger", "builds", "--wait")
        row = (await daemon.json("runs", "--job", "builds"))[0]
        shown = await daemon.json("show", row["run"])
    assert (code, row["outcome"], row["deliveries"], slack.posts()) == (1, "failed", [], [])
    assert "404: The model `this` does not exist" in row["error"]
    assert shown["brief"] is None
