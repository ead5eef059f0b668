"""What people do on the page: plain forms, answered by a redirect to the page that shows the result."""

from collections.abc import Sequence
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from cron.page.pages import Pages
from cron.page.requests import BadRequest, read_form
from cron.page.served import Desk
from cron.verbs import do
from delivery.platforms.local import LocalError, channel_name

BY = "the page"


class Actions:
    """Carries out what a form asks. What is refused comes back as a page with one sentence."""

    def __init__(self, desk: Desk, pages: Pages) -> None:
        self._desk = desk
        self._pages = pages

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes that forms are sent to."""
        return [
            Route("/jobs/run", self.run_now, methods=["POST"]),
            Route("/jobs/pause", self.pause, methods=["POST"]),
            Route("/jobs/resume", self.resume, methods=["POST"]),
            Route("/runs/{run}/cancel", self.cancel, methods=["POST"]),
            Route("/runs/{run}/resend", self.resend, methods=["POST"]),
            Route("/runs/{run}/resolve", self.resolve, methods=["POST"]),
            Route("/channels/{channel}", self.say, methods=["POST"]),
        ]

    async def run_now(self, request: Request) -> Response:
        """Start a manual run and show it."""
        done = await self._do("trigger", {"job": (await read_form(request)).get("job", "")})
        return _see(f"/runs/{quote(str(done['run']), safe='')}")

    async def pause(self, request: Request) -> Response:
        """Skip a job's occurrences until it is resumed."""
        return await self._switch("pause", request)

    async def resume(self, request: Request) -> Response:
        """End a pause."""
        return await self._switch("resume", request)

    async def cancel(self, request: Request) -> Response:
        """End a run that composes."""
        return await self._of_run("cancel", request, {})

    async def resend(self, request: Request) -> Response:
        """Send a brief again where its delivery failed."""
        return await self._of_run("resend", request, {})

    async def resolve(self, request: Request) -> Response:
        """Settle a delivery in doubt."""
        form = await read_form(request)
        asked = {"delivery": form.get("delivery", ""), "verdict": form.get("verdict", "")}
        await self._do("resolve", asked)
        return _see(f"/runs/{quote(request.path_params['run'], safe='')}")

    async def say(self, request: Request) -> Response:
        """Say something in a channel, flat or in a thread, and show it there."""
        form = await read_form(request)
        thread, text = form.get("thread") or None, form.get("text", "")
        try:
            name = channel_name(request.path_params["channel"])
        except LocalError as error:
            raise BadRequest(f"{error}.", status=404) from error
        try:
            said = await self._desk.served.local.say(name, text, form.get("author", "you"), thread)
        except LocalError as error:
            root = int(thread) if thread is not None and thread.isascii() and thread.isdecimal() else None
            return await self._pages.show_channel(name, draft=text, thread=root, refused=str(error))
        return _see(f"/channels/{quote(name, safe='')}#m{said['id']}")

    async def _switch(self, verb: str, request: Request) -> Response:
        form = await read_form(request)
        await self._do(verb, {"job": form.get("job", "")})
        return _see("/")

    async def _of_run(self, verb: str, request: Request, more: dict[str, str]) -> Response:
        run = request.path_params["run"]
        await self._do(verb, {"run": run} | more)
        return _see(f"/runs/{quote(run, safe='')}")

    async def _do(self, verb: str, arguments: dict[str, str]) -> dict[str, object]:
        done = await do(self._desk.served.control, verb, arguments, BY)
        if "error" in done:
            raise BadRequest(str(done["error"]))
        ok: dict[str, object] = done["ok"]
        return ok


def _see(address: str) -> Response:
    return RedirectResponse(address, status_code=303)
