"""The Telegram platform before an outside judge: lo-bot-api-emulator, which records every call that it refuses."""

import asyncio
import json
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from telegrambed import Bed, Heard, telegram_bed

from delivery.model import Address, ChatKind, Sent

pytestmark = pytest.mark.slow
TOKEN = "7000000002:AAjudge-notasecret-0123456789abcdefgh"


def judge_program() -> str:
    found = shutil.which("lo-bot-api-emulator", path=f"{Path(sys.executable).parent}:/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("lo-bot-api-emulator is not installed: pip install lo-bot-api-emulator")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def judge(journal: Path) -> AsyncIterator[str]:
    """Run the emulator; yields its root."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        judge_program(),
        *("--host", "127.0.0.1", "--port", str(port), "--enable-control", "--journal", str(journal)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    root = f"http://127.0.0.1:{port}"
    try:
        await until_up(port, process)
        yield root
    finally:
        process.terminate()
        await process.wait()


async def until_up(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(20):
        while process.returncode is None:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.05)  # another program's start
    raise AssertionError(f"lo-bot-api-emulator ended with {process.returncode}")


def update(text: str, message_id: int) -> dict[str, Any]:
    person = {"id": 42, "is_bot": False, "first_name": "Ann"}
    return {
        "message": {
            "message_id": message_id,
            "date": 1_772_442_000,
            "chat": {"id": 42, "type": "private", "first_name": "Ann"},
            "from": person,
            "text": text,
        }
    }


async def test_flat_posts_and_polling_satisfy_the_judge(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    async with judge(journal) as root, telegram_bed(tmp_path) as bed:
        await hold_a_conversation(bed, root)
    verdict = await asyncio.create_subprocess_exec(
        judge_program(),
        *("verdict", str(journal), "--require-response"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await verdict.communicate()
    assert verdict.returncode == 0, said.decode()
    methods = {json.loads(line).get("method") for line in journal.read_text().splitlines()}
    assert {"getMe", "getUpdates", "sendMessage"} <= methods


async def hold_a_conversation(bed: Bed, root: str) -> None:
    platform = bed.another(token=TOKEN, base_url=root)
    workspace = await platform.connect()
    address = Address(account="telegram", workspace=workspace, chat="42", chat_kind=ChatKind.DM)
    heard = Heard()
    listening = asyncio.create_task(platform.listen(heard.hear))
    try:
        async with aiohttp.ClientSession(root) as http:
            for number, text in enumerate(("hello", "why did the second one fail?"), start=900):
                body = {"token": TOKEN, "update": update(text, number)}
                async with http.post("/__fixture/updates", json=body) as answer:
                    assert answer.status == 200, await answer.text()
                await heard.until(number - 899)
                (brief,) = platform.render(f"{number} builds failed \U0001f525 <b>& \\*")
                sent = await platform.send(bed.part(address, payload=brief.payload))
                assert isinstance(sent, Sent) and sent.degraded is None, sent
                answer_to = await platform.send(bed.part(replace(address, root=str(number)), payload=brief.payload))
                assert isinstance(answer_to, Sent), answer_to
                assert await platform.retract(answer_to.receipt)
                async with platform.working(address):
                    await bed.naps.until(number - 899)
    finally:
        listening.cancel()
        await asyncio.wait((listening,))
        await platform.close()
    assert heard.texts == ["hello", "why did the second one fail?"]
