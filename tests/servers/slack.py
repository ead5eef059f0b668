"""A Slack for tests: the Web API and Socket Mode over loopback, faithful to Slack's public documentation.

    async with SlackServer() as server:
        client = AsyncWebClient(token=server.bot_token, base_url=server.api_url)
        ...
        ts = server.say("#ops", "kim", "why did the second one fail?", thread_ts=root)
        await server.until(lambda: server.acked(ts))

As a process of its own, from `tests/`: `python -m servers.slack --port 8899`. Every server can also be driven
over HTTP (servers.slack_control), for example
`curl -d '{"channel": "#ops", "user": "kim", "text": "why?"}' localhost:8899/__test/say`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Self, TypeVar

from aiohttp import web
from servers import slack_files
from servers.slack_api import ALL_SCOPES, Api, Status
from servers.slack_chat import remove
from servers.slack_control import main, routes
from servers.slack_events import Events
from servers.slack_faults import Call, Fault, FaultKind, Faults, Outage
from servers.slack_http import WebApi, cut
from servers.slack_people import People
from servers.slack_sockets import Ack, Delivery, Hub, Socket
from servers.slack_world import Json, Kind, Message, World

__all__ = ["Ack", "Call", "Delivery", "Fault", "FaultKind", "Kind", "Message", "SlackServer", "Socket"]

T = TypeVar("T")


class SlackServer(People):
    """One workspace with one app, on a loopback port.

    The workspace begins with #general and #ops (`C0GENERAL`, `C0OPS`), kim and alex (`U0KIM`, `U0ALEX`), and
    the bot hermes (`U0BOT`), who is in both channels. Channels and people are named by id or by name.
    What people do is in `People`. Everything runs on the event loop that entered the server.
    """

    def __init__(
        self,
        *,
        bot_token: str = "xoxb-test-token",
        app_token: str = "xapp-1-test-token",
        host: str = "127.0.0.1",
        port: int = 0,
        patience: float = 3.0,
        time_scale: float = 1.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Take `patience` seconds for an acknowledgement; scale the 0, 60 and 300 s of redelivery."""
        self.bot_token = bot_token
        self.app_token = app_token
        self.host = host
        self.port = port
        self.world = World(now)
        self.faults = Faults()
        self._wake = asyncio.Event()
        self.hub = Hub(self.world, self._changed)
        self.hub.patience = patience
        self.hub.time_scale = time_scale
        scopes = set(ALL_SCOPES)
        events = Events(self.world, self._publish, scopes)
        super().__init__(self.world, events, self.hub)
        self.api = Api(
            world=self.world,
            events=events,
            scopes=scopes,
            app_scopes={"connections:write"},
            ticket=self.hub.ticket,
        )
        self.web = WebApi(self.api, bot_token=bot_token, app_token=app_token, faults=self.faults, changed=self._changed)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; after `stop` on the same port as before, with the workspace as it was."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(self.web.routes())
        app.add_routes([web.get("/link/", self._link), web.post("/response/{id}", self._response)])
        app.add_routes(routes(self))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.api.url = self.url
        await self.hub.start()

    async def stop(self) -> None:
        """Stop listening: connections are refused, sockets cut."""
        await self.hub.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Return the server's root, without a slash."""
        return f"http://{self.host}:{self.port}"

    @property
    def api_url(self) -> str:
        """Return what the SDK calls base_url."""
        return f"{self.url}/api/"

    @property
    def calls(self) -> list[Call]:
        """Return every call of the Web API, in order of arrival."""
        return self.web.calls

    def calls_to(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [c for c in self.calls if c.method == method]

    def posts(self, channel: str | None = None) -> list[Message]:
        """Return what the bot posted and is still there, by channel or in all, oldest first."""
        chosen = list(self.world.channels.values()) if channel is None else [self.world.channel(channel)]
        found = [m for c in chosen for m in c.messages.values() if m.by_us and not m.deleted]
        return sorted(found, key=lambda m: m.ts)

    @property
    def statuses(self) -> list[Status]:
        """Return what assistant.threads.setStatus was told."""
        return self.api.statuses

    @property
    def scopes(self) -> set[str]:
        """Return the bot token's scopes; change the set to take rights away."""
        return self.api.scopes

    @property
    def acks(self) -> list[Ack]:
        """Return every acknowledgement, with its time."""
        return self.hub.acks

    def deliveries(self, ts: str | None = None) -> list[Delivery]:
        """Return what was sent over the sockets: all, or the events about one message."""
        return [d for d in self.hub.deliveries if ts is None or ts in _stamps(d.payload)]

    def acked(self, ts: str) -> bool:
        """Say whether every event about that message was acknowledged."""
        about = self.deliveries(ts)
        return bool(about) and all(d.acks for d in about)

    def fault(
        self,
        method: str,
        kind: FaultKind | str,
        *,
        times: int | None = 1,
        skip: int = 0,
        channel: str | None = None,
        seconds: float = 0.0,
        retry_after: int = 30,
        code: str = "fatal_error",
    ) -> Fault:
        """Order a fault: calls of `method` (`*`: any) number `skip` to `skip + times` go wrong (None: all)."""
        where = None if channel is None else self.world.channel(channel).id
        order = Fault(
            method=method,
            kind=FaultKind(kind),
            times=times,
            skip=skip,
            channel=where,
            seconds=seconds,
            retry_after=retry_after,
            code=code,
        )
        return self.faults.add(order)

    def clear_faults(self) -> None:
        """Let everything work again."""
        self.faults.clear()

    def outage(self, kind: Outage | str | None = Outage.CUT) -> None:
        """Be away (`cut`, `http_503`) or, with None, back again. Sockets are cut when it begins."""
        self.web.outage = None if kind is None else Outage(kind)
        if self.web.outage is not None:
            self.hub.drop_all()

    def silence(self, socket: Socket | None = None) -> None:
        """Kill one socket (or all there are) silently: no pong, no frame, no FIN."""
        for one in [socket] if socket is not None else self.hub.sockets:
            one.is_silent = True

    async def disconnect(
        self, reason: str = "refresh_requested", *, socket: Socket | None = None, close_after: float = 0
    ) -> None:
        """Send `disconnect` with reason warning, refresh_requested or link_disabled, then close."""
        await self.hub.disconnect(reason, socket=socket, close_after=close_after)

    def complete_shares(self) -> list[str]:
        """Share the files held back by `server.api.holds_shares = True`; return the messages' ts."""
        return slack_files.complete_shares(self.api)

    def remove(self, ts: str, channel: str) -> None:
        """Delete a message, anyone's, as a person or an admin would."""
        remove(self.api, self.message(channel, ts))

    async def until(self, seen: Callable[[], T], timeout: float = 5.0) -> T:
        """Wait for `seen` to return something true and return it. Raises TimeoutError."""

        async def look() -> T:
            while not (found := seen()):
                self._wake.clear()
                await self._wake.wait()
            return found

        return await asyncio.wait_for(look(), timeout)

    async def connected(self, count: int = 1, timeout: float = 5.0) -> list[Socket]:
        """Wait for at least that many live sockets."""
        return await self.until(lambda: self._live(count), timeout)

    def _live(self, count: int) -> list[Socket]:
        live = [s for s in self.hub.sockets if not s.is_silent]
        return live if len(live) >= count else []

    def _url(self) -> str:
        return self.url

    def _changed(self) -> None:
        self._wake.set()

    def _publish(self, payload: Json) -> str:
        return str(self.hub.publish(payload).event_id)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        return cut(request) if self.web.outage is not None else await self.hub.serve(request)

    async def _response(self, request: web.Request) -> web.StreamResponse:
        self.responses.append(await request.json())
        self._changed()
        return web.Response(text="ok")


def _stamps(payload: Json) -> set[str]:
    event = payload.get("event", {})
    nested = event.get("message", {})
    return {event.get("ts", ""), event.get("deleted_ts", ""), nested.get("ts", "")} - {""}


if __name__ == "__main__":
    main(SlackServer)
