"""The pages that people read: jobs, runs, channels, sessions."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from cron import views
from cron.page import queries
from cron.page.html import STATIC, Templates, static_files
from cron.page.jobs import list_jobs
from cron.page.local_api import DEFAULT_CHANNEL, last_event
from cron.page.requests import BadRequest, query_number
from cron.page.served import Desk
from cron.page.streams import EventStream, changes, commits, event
from delivery.model import DeliveryState
from delivery.platforms.local import LocalError, channel_name
from delivery.targets import LOCAL, TargetError
from seeding import sessions
from seeding.search import LONGEST_QUERY, search

JOBS_ON_A_PAGE = 100
RUNS_ON_A_PAGE = 30
SESSIONS_ON_A_PAGE = 50
MESSAGES_ON_A_PAGE = 60
TURNS_ON_A_PAGE = 100
HITS_ON_A_PAGE = 100
LAST_PAGE = 1000
REFRESH = 1.0  # seconds at least between two hints that something changed


class Pages:
    """Answers with whole pages; each is rendered in a thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.templates = Templates(desk.served.control.redactor)

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes that only show."""
        return [
            Route("/", self.jobs),
            Route("/runs", self.runs),
            Route("/runs/{run}", self.run),
            Route("/channels", self.channels),
            Route("/channels/{channel}", self.channel),
            Route("/channels/{channel}/live", self.channel_live),
            Route("/sessions", self.sessions),
            Route("/sessions/{session}", self.session),
            Route("/search", self.search),
            Route("/live", self.live),
            *(Route(f"/static/{name}", _static(name, body)) for name, body in static_files().items()),
        ]

    async def show(self, template: str, *, status: int = 200, **facts: Any) -> Response:
        """Render a page."""
        common = {"mistakes": self._desk.served.current.mistakes, "zone_of": self.zone_of, "zone": self._zone()}
        text = await asyncio.to_thread(partial(self.templates.render, template, **common, **facts))
        return HTMLResponse(text, status_code=status)

    async def trouble(self, sentence: str, status: int) -> Response:
        """Show what went wrong, in one sentence."""
        return await self.show("trouble.html", status=status, sentence=sentence, code=status)

    def zone_of(self, job: str | None) -> str | None:
        """Return the zone of a job that the file still names."""
        found = self._desk.served.control.config().jobs.get(job or "")
        return None if found is None else found.timezone

    def _zone(self) -> str:
        return self._desk.served.control.config().timezone

    # --- jobs and runs --------------------------------------------------------------------------------

    async def jobs(self, request: Request) -> Response:
        """Show the jobs, the accounts and the channels."""
        desk, page = self._desk, _page(request)
        words = request.query_params.get("q", "").strip()[:100]
        first = (page - 1) * JOBS_ON_A_PAGE
        listed = await list_jobs(desk, words=words, first=first, most=JOBS_ON_A_PAGE + 1)
        states = await desk.db.read(queries.account_states)
        kinds = desk.served.control.config().account_kinds
        return await self.show(
            "jobs.html",
            jobs=listed[:JOBS_ON_A_PAGE],
            words=words,
            page=page,
            has_more=len(listed) > JOBS_ON_A_PAGE,
            is_long=page > 1 or len(listed) > JOBS_ON_A_PAGE,
            accounts=[(name, kind, states.get(name)) for name, kind in kinds.items()],
            channels=await self._channels(),
        )

    async def runs(self, request: Request) -> Response:
        """Show the ledger, newest first."""
        page, job = _page(request), request.query_params.get("job") or None
        rows = await self._desk.db.read(
            lambda conn: views.list_runs(conn, job=job, limit=RUNS_ON_A_PAGE + 1, offset=(page - 1) * RUNS_ON_A_PAGE)
        )
        return await self.show(
            "runs.html",
            rows=rows[:RUNS_ON_A_PAGE],
            has_more=len(rows) > RUNS_ON_A_PAGE,
            page=page,
            job=job,
            channel_of=self._channel_of,
        )

    async def run(self, request: Request) -> Response:
        """Show one run whole."""
        run_id = request.path_params["run"]
        row = await self._desk.db.read(lambda conn: views.whole_run(conn, run_id))
        if row is None:
            raise BadRequest(f"There is no run {run_id[:80]!r}.", status=404)
        return await self.show(
            "run.html",
            run=row,
            channel_of=self._channel_of,
            may_resend=any(one["state"] == DeliveryState.FAILED for one in row["deliveries"]),
        )

    def _channel_of(self, target: str) -> str | None:
        """Return the local channel that a delivery's target text names, or None."""
        try:
            place = self._desk.served.control.config().target(target).target
        except TargetError:
            return None
        return place.chat if place.account == LOCAL else None

    # --- channels -------------------------------------------------------------------------------------

    async def channels(self, request: Request) -> Response:
        """Show the list of channels."""
        return await self.show("channels.html", channels=await self._channels())

    async def channel(self, request: Request) -> Response:
        """Show a stretch of a channel."""
        return await self.show_channel(_channel(request), before=query_number(request, "before", None))

    async def show_channel(
        self, name: str, *, before: int | None = None, draft: str = "", thread: int | None = None, refused: str = ""
    ) -> Response:
        """Show a channel; a message that was refused comes back as a draft, with the reason."""
        db = self._desk.db
        found = await db.read(lambda conn: queries.channel_page(conn, name, before=before, most=MESSAGES_ON_A_PAGE))
        return await self.show(
            "channel.html",
            status=400 if refused else 200,
            channel=name,
            channels=await self._channels(name),
            found=found,
            before=before,
            writing=await db.read(lambda conn: queries.being_answered(conn, name)),
            draft=draft,
            draft_thread=thread,
            refused=refused,
        )

    async def channel_live(self, request: Request) -> EventStream:
        """Push what is said in a channel, as HTML, and where an agent is writing."""
        name, after = _channel(request), last_event(request)
        source = self._said(name, 0 if after is None else int(after))
        return EventStream(source, stop=self._desk.stop, sleep=self._desk.sleep)

    async def _said(self, name: str, seen: int) -> AsyncGenerator[str, None]:
        db, writing = self._desk.db, None
        async with commits(db) as stirred:
            while True:
                stirred.clear()
                after = seen
                posts = await db.read(lambda conn, after=after: queries.posts_since(conn, name, after, most=100))  # type: ignore[misc]
                for post in posts:
                    seen = post.id
                    text = await asyncio.to_thread(
                        partial(self.templates.render, "post.html", post=post, channel=name, zone=self._zone())
                    )
                    yield event({"id": post.id, "thread": post.thread, "html": text}, id=str(post.id))
                now = await db.read(lambda conn: queries.being_answered(conn, name))
                if now != writing:
                    writing = now
                    yield event(writing, kind="writing")
                if not posts:
                    await stirred.wait()

    async def _channels(self, shown: str = DEFAULT_CHANNEL) -> list[str]:
        said = await self._desk.db.read(queries.channels)
        jobs = self._desk.served.control.config().jobs.values()
        told = {self._channel_of(target) for job in jobs for target in job.deliver}
        return sorted({DEFAULT_CHANNEL, shown, *said, *(name for name in told if name is not None)})

    # --- sessions -------------------------------------------------------------------------------------

    async def sessions(self, request: Request) -> Response:
        """Show the conversations, the newest first."""
        page = _page(request)
        end = page * SESSIONS_ON_A_PAGE
        rows = await self._desk.db.read(lambda conn: queries.sessions(conn, most=end + 1))
        return await self.show(
            "sessions.html", rows=rows[end - SESSIONS_ON_A_PAGE : end], page=page, has_more=len(rows) > end
        )

    async def session(self, request: Request) -> Response:
        """Show a transcript."""
        session_id, before = request.path_params["session"], query_number(request, "before", None)
        found = await self._desk.db.read(lambda conn: sessions.get(conn, session_id))
        if found is None:
            raise BadRequest(f"There is no session {session_id[:80]!r}.", status=404)
        turns = await self._desk.db.read(
            lambda conn: queries.turn_page(conn, session_id, before=before, most=TURNS_ON_A_PAGE)
        )
        return await self.show("session.html", session=found, found=turns, before=before)

    async def search(self, request: Request) -> Response:
        """Show the turns in which words stand."""
        words = request.query_params.get("q", "").strip()[:LONGEST_QUERY]
        hits = await self._desk.db.read(lambda conn: search(conn, words, most=HITS_ON_A_PAGE))
        return await self.show("search.html", words=words, hits=hits, most=HITS_ON_A_PAGE)

    async def live(self, request: Request) -> EventStream:
        """Push a hint after something was stored, so that an open page can show itself anew."""
        source = changes(self._desk.db, self._desk.sleep, REFRESH)
        return EventStream(source, stop=self._desk.stop, sleep=self._desk.sleep)


def _page(request: Request) -> int:
    return max(1, query_number(request, "page", 1, most=LAST_PAGE) or 1)


def _channel(request: Request) -> str:
    try:
        return channel_name(request.path_params["channel"])
    except LocalError as error:
        raise BadRequest(f"{error}.", status=404) from error


def _static(name: str, body: bytes) -> Any:
    async def give(request: Request) -> Response:
        return Response(body, media_type=STATIC[name], headers={"Cache-Control": "max-age=31536000, immutable"})

    return give
