"""Server-sent events: what is pushed to pages that stay open. Each stream ends with its client, or with the daemon."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import Receive, Scope, Send

from state.clock import Sleep
from state.database import Database

BEAT = 15.0  # seconds between two signs of life, so that a connection that is gone is noticed
HELLO = "retry: 2000\n: open\n\n"  # milliseconds until a browser that lost the stream asks again

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]

log = logging.getLogger(__name__)


def event(data: object, *, kind: str | None = None, id: str | None = None) -> str:
    """Write one event; its data is one line of JSON."""
    lines = ([] if id is None else [f"id: {id}"]) + ([] if kind is None else [f"event: {kind}"])
    return "\n".join([*lines, f"data: {json.dumps(data)}", "", ""])


class EventStream:
    """The response that sends what `source` yields, until it ends, the client goes, or `stop` is set.

    The source is closed in each case, before the response ends.
    """

    def __init__(self, source: AsyncGenerator[str, None], *, stop: asyncio.Event, sleep: Sleep) -> None:
        self._source = source
        self._stop = stop
        self._sleep = sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            if scope["method"] != "HEAD":
                await _first_of(self._pump(send), self._beat(send), self._stop.wait(), _gone(receive))
        finally:
            await self._source.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        await _push(send, HELLO)
        async for text in self._source:
            await _push(send, text)

    async def _beat(self, send: Send) -> None:
        while True:
            await self._sleep(BEAT)
            await _push(send, ": still here\n\n")


@asynccontextmanager
async def commits(db: Database) -> AsyncIterator[asyncio.Event]:
    """Give an event that is set, in this loop, after every commit."""
    stirred = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stir() -> None:
        loop.call_soon_threadsafe(stirred.set)

    unsubscribe = db.on_commit(stir)
    try:
        yield stirred
    finally:
        unsubscribe()


async def changes(db: Database, sleep: Sleep, pause: float) -> AsyncGenerator[str, None]:
    """Yield one event at once, and one after something was stored; what follows within `pause` seconds shares the next.

    The first is for what was stored between the making of a page and its stream, or while there was none.
    """
    async with commits(db) as stirred:
        stirred.set()
        while True:
            await stirred.wait()
            stirred.clear()
            yield event({}, kind="changed")
            await sleep(pause)


async def _push(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first_of(*coroutines: Coroutine[Any, Any, Any]) -> None:
    """Run all until one has ended, then end the others; an error of the ended ones is raised."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
