"""Puts the routes together: the daemon's own interface always, the page if it is wanted, the guard before all."""

import asyncio
import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from cron.page.access import Access
from cron.page.actions import Actions
from cron.page.api import control_routes, list_routes
from cron.page.guard import INSIDE, Guard, wants_json
from cron.page.local_api import local_routes
from cron.page.pages import Pages
from cron.page.requests import BadRequest
from cron.page.served import Desk, Served
from delivery.platforms.local import LocalError
from state.clock import Sleep
from state.errors import StateError

log = logging.getLogger(__name__)


def build_app(
    served: Served,
    *,
    has_page: bool,
    access: Access,
    stop: asyncio.Event,
    closing: asyncio.Event,
    sleep: Sleep,
) -> ASGIApp:
    """Build the application. `stop` ends open event streams, `closing` requests that wait for an end."""
    desk = Desk(served=served, stop=stop, closing=closing, sleep=sleep)
    routes: list[BaseRoute] = [*control_routes(desk), *local_routes(desk)]
    pages = Pages(desk) if has_page else None
    if pages is not None:
        routes += [*list_routes(desk), *pages.routes(), *Actions(desk, pages).routes()]
    told = _Troubles(pages)
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: told.http,
            BadRequest: told.bad_request,
            LocalError: told.local,
            StateError: told.state,
            Exception: told.unexpected,
        },
    )
    return Guard(app, access, is_healthy=lambda: served.daemon.health()["status"] == "ok")


class _Troubles:
    """Answers what went wrong in one sentence: JSON for programs, a page for people."""

    def __init__(self, pages: Pages | None) -> None:
        self._pages = pages

    async def http(self, request: Request, error: Exception) -> Response:
        """An address or a method that is not there."""
        assert isinstance(error, HTTPException)
        path = request.url.path
        sentence = {
            404: f"There is nothing at {path[:200]}.",
            405: f"{path[:200]} does not take {request.method}.",
        }.get(error.status_code, error.detail)
        response = await self._tell(request, sentence, error.status_code)
        response.headers.update(error.headers or {})
        return response

    async def bad_request(self, request: Request, error: Exception) -> Response:
        """A request that is wrong."""
        assert isinstance(error, BadRequest)
        return await self._tell(request, str(error), error.status)

    async def local(self, request: Request, error: Exception) -> Response:
        """A channel or message that cannot be."""
        return await self._tell(request, str(error), 400)

    async def state(self, request: Request, error: Exception) -> Response:
        """A database that does not do what it should."""
        log.error("A request met the database's trouble.", extra={"action": "request_met_state", "reason": str(error)})
        return await self._tell(request, str(error), 503)

    async def unexpected(self, request: Request, error: Exception) -> Response:
        """A bug; the guard logs it."""
        return await self._tell(request, INSIDE, 500)

    async def _tell(self, request: Request, sentence: str, status: int) -> Response:
        if wants_json(request.url.path):
            return JSONResponse({"error": sentence}, status_code=status)
        if self._pages is None:
            return PlainTextResponse(f"{sentence}\n", status_code=status)
        return await self._pages.trouble(sentence, status)
