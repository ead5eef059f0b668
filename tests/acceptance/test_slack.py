"""The daemon against Slack: briefs, answers flat and in threads, restarts."""

import pytest
from processbed import Process, process, until
from servers.slack import SlackServer

CONFIG = """
    accounts:
      slack: {{bot_token: "{bot}", app_token: "{app}", base_url: "{url}"}}
    targets:
      ops: {{to: "slack:#ops"}}
      open: {{to: "slack:#general", listen: all}}
    jobs:
      builds:
        schedule: in 2s
        deliver: [{target}]
        surface: {surface}
        {writes}
"""
FAILURES = "Three builds failed:\\n\\n1. api: out of memory\\n2. web: a test timed out\\n3. docs: a dead link\\n"
TEXT = f'text: "{FAILURES}"'
SCRIPT = f'command: [printf, "{FAILURES}"]'


def config(server: SlackServer, *, target: str = "ops", surface: str = "flat", writes: str = TEXT) -> str:
    return CONFIG.format(
        bot=server.bot_token, app=server.app_token, url=server.api_url, target=target, surface=surface, writes=writes
    )


async def answer_of(server: SlackServer, daemon: Process, ts: str):
    """Return what the bot posted after a message."""
    return await until(
        lambda: next((post for post in server.posts() if float(post.ts) > float(ts)), None), "an answer", daemon
    )


async def held(daemon: Process, delivery: dict, surface: str) -> list[dict]:
    return await daemon.transcript(delivery[f"{surface}_session"])


@pytest.mark.parametrize("writes", [TEXT, SCRIPT], ids=["text", "script"])
@pytest.mark.parametrize("surface", ["flat", "thread"])
async def test_a_brief_is_seeded_into_both_sessions_and_answered_in_its_thread(tmp_path, surface, writes):
    async with SlackServer() as server, process(tmp_path, config(server, surface=surface, writes=writes)) as daemon:
        await server.connected()
        delivery = (await daemon.run_of("builds"))["deliveries"][0]
        posts = server.posts("#ops")
        root = delivery["root"] or delivery["message_ids"][0]
        for name in ("flat", "thread"):
            turns = await held(daemon, delivery, name)
            assert [(turn["role"], turn["origin"]) for turn in turns] == [("user", "cron")]
            assert turns[0]["text"].startswith("[Cron delivery: builds]\nThree builds failed:")
        asked = server.say("#ops", "kim", "why did the second one fail?", thread_ts=root)
        answer = await answer_of(server, daemon, asked)
    assert (delivery["state"], delivery["flat_seeded"], delivery["thread_seeded"]) == ("sent", True, True)
    assert [post.ts for post in posts][-1:] == delivery["message_ids"]
    assert (answer.thread_ts, "a test timed out" in answer.text, "memory" in answer.text) == (root, True, False)


async def test_a_mention_and_a_plain_message_where_all_is_heard_are_answered_at_top_level(tmp_path):
    async with SlackServer() as server, process(tmp_path, config(server, target="ops, open")) as daemon:
        await server.connected()
        await daemon.run_of("builds")
        mention = server.say("#ops", "kim", "what about docs?", mention=True)
        first = await answer_of(server, daemon, mention)
        plain = server.say("#general", "alex", "and the api?")
        second = await answer_of(server, daemon, plain)
        unheard = server.say("#ops", "kim", "nobody asked the bot")
        heard = server.say("#ops", "kim", "the web?", mention=True)
        await answer_of(server, daemon, heard)
    assert ("a dead link" in first.text, first.thread_ts) == (True, None)
    assert ("out of memory" in second.text, second.thread_ts, second.channel) == (True, None, "C0GENERAL")
    assert len([post for post in server.posts("#ops") if float(post.ts) > float(unheard)]) == 1


async def test_a_direct_message_is_answered_and_knows_the_brief_after_a_restart(tmp_path):
    async with SlackServer() as server, process(tmp_path, config(server, target="slack:@kim")) as daemon:
        await server.connected()
        delivery = (await daemon.run_of("builds"))["deliveries"][0]
        first = await answer_of(server, daemon, server.say("@kim", "kim", "the second one?"))
        await daemon.restart()
        await server.connected()
        threaded = server.say("@kim", "kim", "and the first?", thread_ts=delivery["message_ids"][0])
        second = await answer_of(server, daemon, threaded)
        flat = await answer_of(server, daemon, server.say("@kim", "kim", "what of docs?"))
    assert ["a test timed out" in first.text, "out of memory" in second.text, "a dead link" in flat.text] == [True] * 3
    assert (second.thread_ts, flat.thread_ts) == (delivery["message_ids"][0], None)


async def test_what_was_said_while_the_daemon_was_down_is_answered_after_the_start(tmp_path):
    async with SlackServer() as server, process(tmp_path, config(server)) as daemon:
        await server.connected()
        delivery = (await daemon.run_of("builds"))["deliveries"][0]
        await daemon.stop()
        asked = server.say("#ops", "kim", "the third?", thread_ts=delivery["message_ids"][0])
        await daemon.start()
        answer = await answer_of(server, daemon, asked)
        assert "a dead link" in answer.text
        assert len([post for post in server.posts("#ops") if float(post.ts) > float(asked)]) == 1


async def test_a_long_brief_is_answered_at_its_last_part(tmp_path):
    (tmp_path / "long.py").write_text(
        "for n in range(1, 900): print(f'{n}. host-{n} is fine, nothing to report but this long line')\n"
        "print('900. host-900 has lost its disk')\n"
    )
    writes = "command: [python3, long.py]"
    async with SlackServer() as server, process(tmp_path, config(server, writes=writes)) as daemon:
        await server.connected()
        delivery = (await daemon.run_of("builds"))["deliveries"][0]
        asked = server.say("#ops", "kim", "which host lost its disk?", thread_ts=delivery["message_ids"][-1])
        answer = await answer_of(server, daemon, asked)
        turns = await held(daemon, delivery, "thread")
    assert len(delivery["message_ids"]) >= 3
    assert "host-900" in answer.text
    assert [turn["origin"] for turn in turns] == ["cron", "inbound", "answer"][: len(turns)]
    assert ("1. host-1 " in turns[0]["text"], "900. host-900" in turns[0]["text"]) == (True, True)


async def test_nothing_is_seeded_when_the_delivery_fails(tmp_path):
    async with SlackServer() as server:
        server.world.channel("#ops").is_archived = True
        async with process(tmp_path, config(server)) as daemon:
            delivery = (await daemon.run_of("builds"))["deliveries"][0]
            sessions = await daemon.json("sessions")
            code, _, _ = await daemon.cli("trigger", "builds", "--wait")
    assert (delivery["state"], delivery["message_ids"], delivery["flat_seeded"]) == ("failed", [], None)
    assert [one for one in sessions if one["account"] == "slack"] == []
    assert (code, bool(delivery["error"])) == (1, True)


async def test_a_send_whose_answer_was_lost_is_found_and_never_posted_twice(tmp_path):
    async with SlackServer() as server:
        server.fault("chat.postMessage", "cut_after", channel="#ops")
        async with process(tmp_path, config(server)) as daemon:
            row = await daemon.run_of("builds")
            assert row["deliveries"][0]["state"] in ("in_doubt", "sent")
            asked = server.say("#ops", "kim", "the second?", thread_ts=server.posts("#ops")[0].ts)
            answer = await answer_of(server, daemon, asked)
            proven = (await daemon.json("runs", "--job", "builds"))[0]["deliveries"][0]
    assert "a test timed out" in answer.text
    assert (proven["state"], proven["message_ids"]) == ("sent", [server.posts("#ops")[0].ts])
    assert len([post for post in server.posts("#ops") if "Three builds" in post.text]) == 1


async def test_a_bad_token_marks_that_account_down_while_everything_else_runs(tmp_path):
    async with SlackServer() as server:
        text = config(server, target="ops, local").replace(server.bot_token, "xoxb-wrong-token")
        async with process(tmp_path, text) as daemon:
            row = await daemon.run_of("builds")
            states = {one["target"]: one["state"] for one in row["deliveries"]}
            log = daemon.log()
    assert states == {"ops": "held", "local": "sent"}
    assert ("action=account_down account=slack" in log, "xoxb-wrong-token" in log) == (True, False)
