"""What was written while the daemon was down is answered in the end, once, also if Slack lets it wait."""

import asyncio

from processbed import Process, process, until
from servers.slack import SlackServer

CONFIG = """
    accounts:
      slack: {{bot_token: "{bot}", app_token: "{app}", base_url: "{url}", allow: [U0KIM]}}
    agents:
      default: {{kind: command, command: [python3, ../echo.py]}}
    jobs:
      builds: {{schedule: "0 0 1 1 *", deliver: ["slack:#ops"], text: three builds failed}}
"""
ECHO = 'import json, sys\nprint("answer to", json.load(sys.stdin)["question"])\n'


def config(server: SlackServer) -> str:
    return CONFIG.format(bot=server.bot_token, app=server.app_token, url=server.api_url)


def answers(server: SlackServer) -> list[str]:
    return [post.text for post in server.posts() if post.text.startswith("answer to")]


async def answered(server: SlackServer, daemon: Process, *texts: str) -> None:
    await until(lambda: {f"answer to {text}" for text in texts} <= set(answers(server)), f"answers to {texts}", daemon)


async def test_what_was_said_and_edited_while_it_was_down_is_answered_once_in_channels_and_dms(tmp_path):
    for folder in (tmp_path, tmp_path.parent):
        (folder / "echo.py").write_text(ECHO)
    async with SlackServer() as server, process(tmp_path, config(server)) as daemon:
        await server.connected()
        [root] = (await daemon.json("trigger", "builds", "--wait"))["deliveries"][0]["message_ids"]
        thread = server.say("#ops", "kim", "in the thread", thread_ts=root)
        server.say("@kim", "kim", "in a DM")
        await answered(server, daemon, "in the thread", "in a DM")
        assert await daemon.stop() == 0

        server.say("@kim", "kim", "missed in the DM")
        server.say("#ops", "kim", "missed in the thread", thread_ts=root)
        server.edit("#ops", thread, "in the thread, edited")
        for method in ("conversations.history", "conversations.replies"):
            server.fault(method, "429", times=None, retry_after=900)
        await daemon.start()
        await server.connected()
        await until(lambda: server.calls_to("conversations.history"), "a place to be read", daemon)
        server.say("#ops", "kim", "live", thread_ts=root)
        await answered(server, daemon, "live")  # answers are not held up
        began = asyncio.get_running_loop().time()
        assert await daemon.stop() == 0
        assert asyncio.get_running_loop().time() - began < 30  # nor is a stop

        server.clear_faults()
        server.fault("conversations.replies", "429", retry_after=1)
        await daemon.start()
        await server.connected()
        wanted = ("missed in the DM", "missed in the thread", "in the thread, edited")
        await answered(server, daemon, *wanted)
        await server.disconnect()  # as Slack does every few hours
        server.say("@kim", "kim", "at last")
        await answered(server, daemon, "at last")
    assert sorted(answers(server)) == sorted(
        f"answer to {text}" for text in (*wanted, "in the thread", "in a DM", "live", "at last")
    )
