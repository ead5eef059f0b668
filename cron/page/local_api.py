"""The local platform's own interface: read a channel, say something in it, and be told what is said."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from cron.page.requests import BadRequest, query_number, read_object, text_field
from cron.page.served import Desk
from cron.page.streams import EventStream, event
from delivery.platforms.local import LocalMessage, LocalPlatform, channel_name, messages

DEFAULT_CHANNEL = "general"


def local_routes(desk: Desk) -> Sequence[BaseRoute]:
    """Return the routes under /api/local."""

    async def listed(request: Request) -> Response:
        channel = request.query_params.get("channel", DEFAULT_CHANNEL)
        after = request.query_params.get("after") or None
        rows: Any = await desk.db.read(lambda conn: messages(conn, channel, after))
        return JSONResponse(rows)

    async def said(request: Request) -> Response:
        given = await read_object(request)
        thread = given.get("thread")
        if thread is not None and not isinstance(thread, str):
            raise BadRequest('"thread" must be a message\'s id as a text, or null.')
        message = await desk.served.local.say(
            text_field(given, "channel", DEFAULT_CHANNEL),
            text_field(given, "text"),
            text_field(given, "author", "you"),
            thread,
        )
        return JSONResponse(message, status_code=201)

    async def events(request: Request) -> EventStream:
        channel = request.query_params.get("channel")
        after = last_event(request)
        source = _told(desk.served.local, None if channel is None else channel_name(channel), after)
        return EventStream(source, stop=desk.stop, sleep=desk.sleep)

    return [
        Route("/api/local/messages", listed),
        Route("/api/local/messages", said, methods=["POST"]),
        Route("/api/local/events", events),
    ]


def last_event(request: Request) -> str | None:
    """Return the id of the last message that the client has: what its browser says, else `after`. Raises BadRequest."""
    told = request.headers.get("last-event-id", "")
    if told.isascii() and told.isdecimal() and len(told) <= 18:
        return told
    after = query_number(request, "after", None)
    return None if after is None else str(after)


async def _told(local: LocalPlatform, channel: str | None, after: str | None) -> AsyncGenerator[str, None]:
    source: AsyncIterator[LocalMessage] = local.changes(channel, after)
    async with aclosing(cast("AsyncGenerator[LocalMessage, None]", source)) as told:
        async for message in told:
            yield event(message, id=message["id"])
