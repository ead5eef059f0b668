"""The interface for programs: health, the verbs that the command line asks for, and the lists as it prints them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from cron import views
from cron.page import queries
from cron.page.jobs import list_jobs
from cron.page.requests import BadRequest, query_number, read_object, text_field
from cron.page.served import Desk
from cron.verbs import do

MOST_RUNS = 1000


def control_routes(desk: Desk) -> Sequence[BaseRoute]:
    """Return what the daemon serves even without a page."""

    async def healthz(request: Request) -> Response:
        health = desk.served.daemon.health()
        return JSONResponse(health, status_code=200 if health["status"] == "ok" else 503)

    async def act(request: Request) -> Response:
        given = await read_object(request)
        arguments = given.get("arguments", {})
        if not isinstance(arguments, dict):
            raise BadRequest('"arguments" must be a JSON object.')
        by = text_field(given, "by", "the API")[:200]
        return JSONResponse(await _done(desk, request.path_params["verb"], arguments, by))

    return [
        Route("/healthz", healthz),
        Route("/api/do/{verb}", act, methods=["POST"]),
    ]


def list_routes(desk: Desk) -> Sequence[BaseRoute]:
    """Return the lists."""

    async def jobs(request: Request) -> Response:
        return JSONResponse([job.as_listed() for job in await list_jobs(desk)])

    async def runs(request: Request) -> Response:
        limit = query_number(request, "n", views.NEWEST_RUNS, most=MOST_RUNS) or 0
        job = request.query_params.get("job")
        return JSONResponse(await desk.db.read(lambda conn: views.list_runs(conn, job=job, limit=limit)))

    async def run(request: Request) -> Response:
        run_id = request.path_params["run"]
        found = await desk.db.read(lambda conn: views.whole_run(conn, run_id))
        if found is None:
            raise BadRequest(f"There is no run {run_id!r}; /api/runs lists them.", status=404)
        return JSONResponse(desk.served.control.redactor().redact_value(found))

    async def sessions(request: Request) -> Response:
        return JSONResponse(await desk.db.read(lambda conn: queries.sessions(conn, most=MOST_RUNS)))

    async def transcript(request: Request) -> Response:
        session = request.path_params["session"]
        found = await desk.db.read(lambda conn: views.transcript(conn, session))
        if found is None:
            raise BadRequest(f"There is no session {session!r}; /api/sessions lists them.", status=404)
        return JSONResponse(found)

    return [
        Route("/api/jobs", jobs),
        Route("/api/runs", runs),
        Route("/api/runs/{run}", run),
        Route("/api/sessions", sessions),
        Route("/api/sessions/{session}", transcript),
    ]


async def _done(desk: Desk, verb: str, arguments: dict[str, Any], by: str) -> dict[str, Any]:
    """Carry out a verb; one that is still waiting when the daemon ends says so instead of dying."""
    doing = asyncio.create_task(do(desk.served.control, verb, arguments, by))
    closing = asyncio.create_task(desk.closing.wait())
    try:
        await asyncio.wait([doing, closing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])
    if doing.cancelled():
        return {
            "error": "The daemon ended before this was done; `hermes-cron runs` tells what became of it.",
            "code": 1,
        }
    return doing.result()
