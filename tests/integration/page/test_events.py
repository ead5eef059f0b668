"""Streams: what is said arrives by itself, in order, once, also after the connection was lost; streams end in time."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager

import httpx
from daemonbed import until


@asynccontextmanager
async def listening(site, path, **options):
    """Open a stream; gives a function that waits for its next event."""
    async with site.http.stream("GET", path, **options) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()

        async def following():
            event = {}
            async for line in lines:
                if line == "" and "data" in event:
                    return event | {"data": json.loads(event["data"])}
                name, _, value = line.partition(": ")
                event[name] = value
            return None

        async def wait():
            return await asyncio.wait_for(following(), 15)

        yield wait


async def said(site, text, channel="notes", thread=None):
    body = {"channel": channel, "text": text, "thread": thread}
    return (await site.http.post("/api/local/messages", json=body)).json()


async def test_what_is_said_arrives_with_its_id(site):
    async with listening(site, "/api/local/events?channel=notes&after=0") as following:
        first = await said(site, "one")

        event = await following()

    assert (event["id"], event["data"]) == (first["id"], first)


async def test_a_stream_goes_on_where_the_last_one_ended(site):
    first, second = await said(site, "one"), await said(site, "two")

    last_seen = {"Last-Event-ID": first["id"]}
    async with listening(site, "/api/local/events?channel=notes&after=0", headers=last_seen) as following:
        event = await following()

    assert event["data"] == second


async def test_a_stream_of_one_channel_is_silent_about_others(site):
    async with listening(site, "/api/local/events?channel=notes&after=0") as following:
        await said(site, "elsewhere", channel="other")
        here = await said(site, "here")

        event = await following()

    assert event["data"] == here


async def test_a_brief_arrives_on_the_stream(site):
    async with listening(site, "/api/local/events?channel=general&after=0") as following:
        await site.run("disk")

        event = await following()

    assert event["data"]["job"] == "disk"


async def test_a_list_is_told_to_show_itself_anew_at_once_and_after_each_change(site):
    async with listening(site, "/live") as following:
        first = await following()
        await site.run("quiet")
        second = await following()

    assert (first["event"], second["event"]) == ("changed", "changed")


async def test_the_page_gets_what_is_said_as_safe_html(site):
    async with listening(site, "/channels/notes/live?after=0") as following:
        await said(site, "<script>alert(1)</script> **bold**")
        event = await following()
        while event.get("event") == "writing":
            event = await following()

    assert "<strong>bold</strong>" in event["data"]["html"]
    assert "<script>" not in event["data"]["html"]


async def test_a_stream_that_cannot_be_is_refused_before_it_begins(site):
    for query in ("channel=a%20b", "after=x"):
        response = await site.http.get(f"/api/local/events?{query}")
        assert (response.status_code, list(response.json())) == (400, ["error"])


async def test_a_stream_whose_client_has_gone_is_closed(site):
    listeners = site.running.wired.db._callbacks  # nothing else tells how many streams are open
    async with listening(site, "/api/local/events?channel=notes&after=0") as following:
        await said(site, "one")
        await following()
        assert len(site.running.wired.db._callbacks) == len(listeners) + 1

    await until(lambda: len(site.running.wired.db._callbacks) == len(listeners), "the stream to be closed")


async def test_the_daemon_ends_promptly_though_pages_are_open(open_site):
    paths = ("/api/local/events", "/channels/general/live?after=0", "/live")
    async with open_site() as site, httpx.AsyncClient(base_url=site.http.base_url, trust_env=False) as others:
        streams = [asyncio.create_task(others.get(path, timeout=30)) for path in paths]
        await until(lambda: len(site.running.wired.db._callbacks) >= len(paths), "the streams to be open")

        assert await site.running.stop() == 0
        ended = await asyncio.wait_for(asyncio.gather(*streams), 10)

    # Each was ended in order, not cut off: a stream that is cut raises RemoteProtocolError.
    assert [one.status_code for one in ended] == [200, 200, 200]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("page")]


async def test_a_request_that_waits_is_answered_when_the_daemon_ends(open_site):
    jobs = """
        jobs:
          slow:
            schedule: "@yearly"
            command: [sleep, "600"]
        """
    async with open_site(jobs) as site, httpx.AsyncClient(base_url=site.http.base_url, trust_env=False) as others:
        started = (await site.http.post("/api/do/trigger", json={"arguments": {"job": "slow"}})).json()
        body = {"arguments": {"run": started["ok"]["run"]}}
        waiting = asyncio.create_task(others.post("/api/do/wait", json=body, timeout=60))
        await until(lambda: site.running.runs("slow"), "the run")

        await site.server.__aexit__(None, None, None)

        answer = (await waiting).json()
        await site.running.wired.control.cancel(started["ok"]["run"], by="this test")
    assert answer["code"] == 1
    assert "The daemon ended before this was done" in answer["error"]
