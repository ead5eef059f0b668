"""The Slack test server as a process of its own, driven with HTTP alone."""

import asyncio
import json
import os
import sys
from pathlib import Path

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

TESTS = Path(__file__).parents[1]


async def test_it_prints_where_it_listens_serves_and_ends_on_sigterm():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "servers.slack",
        "--port",
        "0",
        cwd=TESTS,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        facts = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
        client = AsyncWebClient(token=facts["bot_token"], base_url=facts["base_url"])
        async with aiohttp.ClientSession() as http:
            said = {"channel": "@kim", "user": "kim", "text": "hello"}
            ts = (await (await http.post(facts["control"] + "say", json=said)).json())["ts"]
            fault = {"method": "chat.postMessage", "kind": "429", "retry_after": 1}
            ordered = await (await http.post(facts["control"] + "fault", json=fault)).json()
            await http.post(facts["control"] + "clear_faults")
            await client.chat_postMessage(channel="D0KIM", text="answer")
            calls = await (await http.get(facts["control"] + "calls?method=chat.postMessage")).json()
            messages = await (await http.get(facts["control"] + "messages?channel=@kim")).json()
            late = await http.get(facts["control"] + "posts?count=9&timeout=0.05")
        assert ordered["result"]["hits"] == 0
        assert [c["result"] for c in calls] == ["ok"]
        assert [(m["ts"] == ts, m["text"]) for m in messages] == [(True, "hello"), (False, "answer")]
        assert late.status == 408
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
