"""The pages walked as a newcomer walks them: their files, their commands, their messages, against the test servers."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from daemonbed import Running, daemon, until
from pagesbed import ROOT, Block, blocks, first_cells, read, sections
from processbed import Process
from servers.slack import SlackServer
from servers.telegram import TelegramServer


def scripts(page: str) -> list[Block]:
    return [block for block in blocks("sh", ROOT / page) if block.mark.startswith("runnable")]


def first_file(page: str, account: str) -> str:
    """Return the jobs file that a page begins with."""
    return next(block.text for block in blocks("yaml", ROOT / page) if f"\n  {account}:\n" in block.text)


def troubles(page: str) -> list[re.Pattern[str]]:
    """Return what a page says people may see, as patterns; `...` stands for anything."""
    cells = first_cells(sections(read(page))["When it does not work"])
    seen = [found for cell in cells for _, found in re.findall(r"(``?)(?! )(.+?)\1(?!`)", cell)]
    return [re.compile(re.escape(one.strip()).replace(r"\.\.\.", ".*")) for one in seen]


def assert_explained(page: str, message: str | None) -> None:
    plain = (message or "").replace("`", "")
    assert any(one.search(plain) for one in troubles(page) if len(one.pattern) > 12), (
        f"{page} does not explain: {plain}"
    )


async def newest_delivery(running: Running, job: str) -> dict[str, Any]:
    await running.wired.control.trigger(job)
    return (await running.run_of(job))["deliveries"][0]  # type: ignore[no-any-return]


# --- README ---------------------------------------------------------------------------------------


@asynccontextmanager
async def cloned(folder: Path) -> AsyncIterator[Process]:
    """A fresh clone with its daemon running, as `make run` leaves it."""
    shutil.copy(ROOT / "jobs.yaml", folder)
    shutil.copytree(ROOT / "examples", folder / "examples")
    activate = folder / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    program = activate.with_name("hermes-cron")
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from cron.cli.main import main; main()' \"$@\"\n")
    program.chmod(0o755)
    activate.write_text(f'PATH="{activate.parent}:$PATH"\n')
    made = Process(folder, {"PYTHONPATH": str(ROOT)})
    await made.start()
    try:
        yield made
    finally:
        assert await made.stop() == 0, made.log()


async def test_the_readme_works_line_by_line(tmp_path):
    async with cloned(tmp_path) as process:
        assert [one["target"] for one in (await process.run_of("builds"))["deliveries"]] == ["local:#builds"]
        shown = [await sh(script.text, process, tmp_path) for script in scripts("README.md")]
    assert len(shown) == 2
    assert "local:#builds sent" in shown[0] and "builds / builds" in shown[0]
    assert shown[0].rstrip().endswith("- `search.query.test_umlauts`: 'strasse' did not find 'Straße'")
    assert "2 jobs, all good." in shown[1] and "ran; local sent" in shown[1]


async def sh(script: str, process: Process, folder: Path) -> str:
    environ = os.environ | {"HERMES_CRON_HOME": str(process.home), "PYTHONPATH": str(ROOT), "TZ": "UTC"}
    environ["PATH"] = f"{folder / '.venv' / 'bin'}:{environ['PATH']}"
    shell = await asyncio.create_subprocess_exec(
        "sh",
        "-eu",
        "-c",
        script,
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(shell.communicate(), 100)
    assert shell.returncode == 0, out.decode()
    return out.decode()


async def test_the_job_of_the_readme_is_taken_up_by_a_running_daemon(tmp_path):
    (part,) = [block.text for block in blocks("yaml", ROOT / "README.md")]
    async with cloned(tmp_path) as process:
        lines = "".join(f"  {line}\n" for line in part.splitlines()[1:])
        with (tmp_path / "jobs.yaml").open("a") as file:
            file.write(lines)
        await until(lambda: process.log().count("action=jobs_changed") > 1, "the new job")
        code, out, err = await process.cli("trigger", "disk", "--wait")
    assert (code, out.partition("; ")[2]) == (0, "local:#disk sent\n"), err


# --- Slack ----------------------------------------------------------------------------------------


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        server.add_channel("builds", members=["hermes", "kim", "alex"])
        yield server


def slack_file(server: SlackServer, more: str = "") -> str:
    text = first_file("docs/slack.md", "slack")
    return text.replace("  slack:\n", f'  slack:\n    base_url: "{server.api_url}"\n{more}')


def slack_tokens(server: SlackServer) -> dict[str, str]:
    return {"SLACK_BOT_TOKEN": server.bot_token, "SLACK_APP_TOKEN": server.app_token}


async def test_the_slack_page_leads_to_a_brief_that_can_be_answered(tmp_path, slack):
    async with daemon(tmp_path, slack_file(slack), environ=slack_tokens(slack)) as running:
        await slack.connected()
        delivery = await newest_delivery(running, "standup")
        assert delivery["state"] == "sent", delivery
        in_thread = slack.say("#builds", "kim", "what was the second one?", thread_ts=delivery["root"])
        await slack.until(lambda: len(slack.posts("#builds")) == 3, 15)
        answer = slack.posts("#builds")[-1]
        assert answer.thread_ts == delivery["root"] and "What is next?" in answer.text, in_thread

        slack.say("#builds", "alex", "nobody asked you")
        slack.say("#builds", "alex", "what was the third one?", mention=True)
        await slack.until(lambda: len(slack.posts("#builds")) == 4, 15)
        answer = slack.posts("#builds")[-1]
        assert answer.thread_ts is None and "What is in the way?" in answer.text

        slack.say("#builds", "kim", "!new")
        slack.say("#builds", "kim", "!cron list")
        await slack.until(lambda: len(slack.posts("#builds")) == 6, 15)
        assert {one.text for one in slack.posts("#builds")[-2:]} == {
            "A new conversation starts here.",
            "Only people listed under allow of this account may do that.",
        }


async def test_people_whom_allow_lists_may_give_commands_in_slack(tmp_path, slack):
    file = slack_file(slack, "    allow: [U0KIM]\n")
    async with daemon(tmp_path, file, environ=slack_tokens(slack)) as running:
        await slack.connected()
        delivery = await newest_delivery(running, "standup")
        slack.say("#builds", "alex", "am I heard?", thread_ts=delivery["root"])
        slack.say("#builds", "kim", "cron list", mention=True)
        await slack.until(lambda: len(slack.posts("#builds")) == 3, 15)
        assert slack.posts("#builds")[-1].text.startswith("- standup: ")


@pytest.mark.parametrize(
    ("place", "tokens", "scopes"),
    [
        ("slack:#private", {}, None),
        ("slack:#lost", {}, None),
        ("slack:@nobody", {}, None),
        ("slack:@kim", {}, {"chat:write", "channels:read", "groups:read"}),
        ("slack:#builds", {"SLACK_BOT_TOKEN": "xoxb-wrong-token"}, None),
    ],
)
async def test_what_goes_wrong_in_slack_is_explained_on_its_page(tmp_path, slack, place, tokens, scopes):
    slack.add_channel("private", members=["kim"])
    if scopes is not None:
        slack.scopes.intersection_update(scopes)
    file = slack_file(slack).replace('"slack:#builds"', f'"{place}"')
    async with daemon(tmp_path, file, environ=slack_tokens(slack) | tokens) as running:
        delivery = await newest_delivery(running, "standup")
        reason = delivery["error"]
        if tokens:
            assert delivery["state"] == "held"
            reason = await account_reason(running, "slack")
    assert_explained("docs/slack.md", reason)


async def account_reason(running: Running, account: str) -> str:
    from delivery.chats import gate

    async def told() -> str | None:
        return (await running.read(lambda conn: gate(conn, account, None))).reason

    return await until(told, "the account to be down")  # type: ignore[no-any-return]


# --- Telegram -------------------------------------------------------------------------------------


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


def telegram_file(server: TelegramServer) -> str:
    text = first_file("docs/telegram.md", "telegram")
    return text.replace("  telegram:\n", f'  telegram:\n    base_url: "{server.url}"\n')


async def test_the_telegram_page_leads_to_a_brief_that_can_be_answered(tmp_path, telegram, caplog):
    caplog.set_level("INFO")
    ann, ben = telegram.add_user("Ann", id=123456789), telegram.add_user("Ben", id=5550001)
    chat, other = telegram.private(ann), telegram.private(ben)
    group = telegram.add_chat("supergroup", "ops", id=-1001234567890, members=[ann, ben])
    text = telegram_file(telegram).replace("jobs:\n", '  ops: {to: "telegram:-1001234567890"}\njobs:\n')
    text = text.replace("deliver: me", "deliver: [me, ops]")
    async with daemon(tmp_path, text, environ={"TELEGRAM_BOT_TOKEN": telegram.token}) as running:
        telegram.say(other, ben, "hi")
        await until(lambda: "A stranger is not heard." in caplog.messages, "the stranger's line")
        (line,) = [one for one in caplog.records if getattr(one, "action", "") == "stranger_dropped"]
        assert (line.chat, line.author) == ("5550001", "5550001")  # type: ignore[attr-defined]

        await newest_delivery(running, "week")
        telegram.say(chat, ann, "what was the second one?")
        await telegram.wait_posts(2, chat=chat)
        assert "What can wait?" in telegram.posts(chat)[-1]["text"]
        telegram.say(chat, ann, "/cron list")
        await telegram.wait_posts(3, chat=chat)
        assert telegram.posts(chat)[-1]["text"].startswith("• week: Mon 09:00")

        brief = telegram.posts(group)[0]
        telegram.say(group, ann, "nobody asked you")
        question = telegram.say(group, ann, "what was the first one?", reply_to=brief)
        await telegram.wait_posts(2, chat=group)
        answer = telegram.posts(group)[-1]
        assert "What is due?" in answer["text"]
        assert answer["reply_to_message"]["message_id"] == question["message_id"]


@pytest.mark.parametrize("case", ["unknown", "blocked", "topic", "rights", "token"])
async def test_what_goes_wrong_in_telegram_is_explained_on_its_page(tmp_path, telegram, case):
    ann = telegram.add_user("Ann", id=123456789)
    if case != "unknown":
        telegram.private(ann)
    if case == "blocked":
        telegram.block(ann)
    telegram.add_chat("forum", "ops", id=-100777)
    place = {"topic": "telegram:-100777/23", "rights": "telegram:-100777"}.get(case, "telegram:123456789")
    text = telegram_file(telegram).replace('"telegram:123456789"', f'"{place}"')
    text = text.replace("deliver: me", "deliver: me\n    surface: thread") if case == "rights" else text
    token = "1:wrong-token" if case == "token" else telegram.token
    async with daemon(tmp_path, text, environ={"TELEGRAM_BOT_TOKEN": token}) as running:
        delivery = await newest_delivery(running, "week")
        assert delivery["state"] == {"rights": "degraded", "token": "held"}.get(case, "failed")
        reason = await account_reason(running, "telegram") if case == "token" else delivery["error"]
    assert_explained("docs/telegram.md", reason)
