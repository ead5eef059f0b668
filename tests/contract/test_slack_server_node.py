"""The official Node client judges our Socket Mode: it connects, hears, acknowledges and comes back.

The package is fetched once into pytest's cache folder. Without node, npm or a registry the test is skipped
with the reason; in CI (`CI=true`) it must run.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import pytest
from servers.slack import SlackServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PACKAGE = "@slack/socket-mode@3.1.0"

SCRIPT = """
const { SocketModeClient } = require('@slack/socket-mode');
const client = new SocketModeClient({
  appToken: process.env.APP_TOKEN,
  clientOptions: { slackApiUrl: process.env.API_URL },
  clientPingTimeout: 300,
  logLevel: 'error',
});
const tell = (what) => console.log(JSON.stringify(what));
client.on('message', async ({ ack, event, retry_num }) => {
  await ack();
  tell({ text: event.text, ts: event.ts, retry: retry_num });
});
client.on('slash_commands', async ({ ack, body }) => {
  await ack({ text: 'done: ' + body.text });
});
client.start();
"""


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"in CI this test must run: {reason}")
    print(f"skipped: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def package(request: pytest.FixtureRequest) -> Path:
    """Return a folder in which the official client is installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        unavailable("node and npm are not installed")
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("slack-node")
    if not (folder / "node_modules" / "@slack" / "socket-mode" / "package.json").exists():
        install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
        done = subprocess.run(install, capture_output=True, text=True, timeout=150, check=False)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no output"]
            unavailable(f"npm could not install {PACKAGE}: {lines[-1]}")
    return folder


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as running:
        yield running


@pytest.fixture
async def node(server: SlackServer, package: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    env = {"PATH": os.environ["PATH"], "APP_TOKEN": server.app_token, "API_URL": server.api_url}
    process = await asyncio.create_subprocess_exec(
        "node", "-e", SCRIPT, cwd=package, env=env, stdout=asyncio.subprocess.PIPE
    )
    yield process
    process.kill()
    await process.communicate()


async def told(process: asyncio.subprocess.Process) -> dict:
    assert process.stdout is not None
    return json.loads(await asyncio.wait_for(process.stdout.readline(), 20))


async def test_the_official_node_client_hears_and_acknowledges(server, node):
    await server.connected(timeout=30)
    ts = server.say("#ops", "kim", "hello from kim")
    assert await told(node) == {"text": "hello from kim", "ts": ts, "retry": 0}
    await server.until(lambda: server.acked(ts), timeout=20)
    command = server.slash("#ops", "kim", "/cron", "list")
    await server.until(lambda: command.acks, timeout=20)
    assert command.acks[0].payload == {"text": "done: list"}


async def test_the_official_node_client_comes_back_after_a_disconnect_frame(server, node):
    [old] = await server.connected(timeout=30)
    await server.disconnect("refresh_requested", close_after=0.5)
    await server.until(lambda: server.hub.sockets and old not in server.hub.sockets, timeout=30)
    ts = server.say("#ops", "kim", "are you back?")
    assert (await told(node))["ts"] == ts
    await server.until(lambda: server.acked(ts), timeout=20)
