"""The page's routes: /healthz, what the command line asks of a living daemon, and the page itself."""

import asyncio
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cron.control import Control
from cron.daemon import Daemon
from cron.verbs import do
from delivery.platforms.local import LocalPlatform, messages
from state.database import Database


class Served(Protocol):
    """What is served; `cron.wiring.Wired` is one."""

    @property
    def daemon(self) -> Daemon: ...
    @property
    def control(self) -> Control: ...
    @property
    def db(self) -> Database: ...
    @property
    def local(self) -> LocalPlatform: ...


def build_app(served: Served, *, has_page: bool, port: int, stop: asyncio.Event) -> Starlette:
    """Build the application; `stop` ends open event streams."""

    async def healthz(request: Request) -> Response:
        health = served.daemon.health()
        return JSONResponse(health, status_code=200 if health["status"] == "ok" else 503)

    async def list_messages(request: Request) -> Response:
        channel = request.query_params.get("channel", "general")
        after = request.query_params.get("after")
        rows: Any = await served.db.read(lambda conn: messages(conn, channel, after))
        return JSONResponse(rows)

    async def say(request: Request) -> Response:
        body = await request.json()
        said = await served.local.say(
            body.get("channel", "general"), body["text"], body.get("author", "you"), body.get("thread")
        )
        return JSONResponse(said, status_code=201)

    async def act(request: Request) -> Response:
        body = await request.json()
        done = await do(served.control, request.path_params["verb"], body.get("arguments", {}), body.get("by", "api"))
        return JSONResponse(done)

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/api/do/{verb}", act, methods=["POST"]),
            Route("/api/local/messages", list_messages),
            Route("/api/local/messages", say, methods=["POST"]),
        ]
    )
