"""A Telegram Bot API server for tests: the real wire over loopback, a world of people and chats behind it.

In process:

    async with TelegramServer(token="123:abc") as server:
        bot = Bot("123:abc", base_url=server.base_url)          # python-telegram-bot
        chat = server.private(server.add_user("Ann"))
        server.say(chat, chat.id, "hello")
        await server.wait_posts(1)

On its own, driven by `POST /__test/VERB` (telegram_control.py):

    PYTHONPATH=tests python -m servers.telegram --token 123:abc --port 0

Source: https://core.telegram.org/bots/api, and the wordings of the tdlib server.
"""

import argparse
import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.web_request import FileField
from servers.telegram_control import control_routes
from servers.telegram_faults import HTML_502, Fault, FaultKind, Limits, too_many
from servers.telegram_methods import Methods
from servers.telegram_model import BotApiError, Json, User
from servers.telegram_people import People
from servers.telegram_rules import Params, Upload
from servers.telegram_world import ChatRef

DEFAULT_TOKEN = "7000000001:AAtestserver-notasecret-0123456789abc"
_SENDS = frozenset({"sendmessage", "senddocument"})
_OUTAGES = {"cut": FaultKind.CUT_BEFORE, "500": FaultKind.ERROR_500, "502": FaultKind.HTML_502}
_WITHOUT_EFFECT = (
    FaultKind.CUT_BEFORE,
    FaultKind.TOO_MANY,
    FaultKind.ERROR_500,
    FaultKind.HTML_502,
    FaultKind.ERROR,
)


@dataclass(slots=True, kw_only=True)
class Call:
    """One request that reached the server. `status` None: open, or the connection was cut; `error`: the refusal."""

    method: str
    params: dict[str, str]
    at: float
    status: int | None = None
    error: str | None = None
    result: object = None

    def wire(self) -> Json:
        """Return it as JSON for the control API."""
        return {"method": self.method, "params": self.params, "at": self.at, "status": self.status, "error": self.error}


class TelegramServer(People):
    """The server and its world. `now` gives Unix seconds, `monotonic` drives the rates if `enforce_rates`."""

    def __init__(
        self,
        *,
        token: str = DEFAULT_TOKEN,
        username: str = "brief_bot",
        port: int = 0,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        bot_id = int(token.partition(":")[0])
        super().__init__(bot=User(id=bot_id, first_name="Brief", username=username, is_bot=True), now=now)
        self.token = token
        self.port = port
        self.calls: list[Call] = []
        self.enforce_rates = False
        self._monotonic = monotonic
        self._limits = Limits()
        self._methods = Methods(self)
        self._faults: list[Fault] = []
        self._outage: str | None = None
        self._transports: set[asyncio.BaseTransport] = set()
        self._busy: set[asyncio.BaseTransport] = set()
        self._runner: web.AppRunner | None = None

    # life

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=60 * 2**20)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/documents/{file_id}", self._download)
        app.add_routes(control_routes(self))
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        await self.come_back()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.updates.end_poll()
        self.clear_faults()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The server's root, as `accounts.telegram.base_url` wants it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What python-telegram-bot wants: the root and `/bot`."""
        return f"{self.url}/bot"

    @property
    def base_file_url(self) -> str:
        """Where python-telegram-bot looks for files."""
        return f"{self.url}/file/bot"

    # trouble

    def fault(
        self,
        method: str,
        kind: FaultKind | str,
        times: int = 1,
        *,
        chat: ChatRef | None = None,
        skip: int = 0,
        seconds: float = 0,
        retry_after: int = 1,
        code: int = 400,
        description: str = "Bad Request",
        parameters: Json | None = None,
    ) -> Fault:
        """Arm a fault for the next `times` calls of a method ("*": any), after `skip` of them; see FaultKind."""
        fault = Fault(
            kind=FaultKind(kind),
            method=method.lower(),
            times=times,
            skip=skip,
            chat_id=None if chat is None else self.chat(chat).id,
            seconds=seconds,
            retry_after=retry_after,
            code=code,
            description=description,
            parameters=parameters,
        )
        self._faults.append(fault)
        return fault

    def clear_faults(self) -> None:
        """Disarm every fault and let go what is held."""
        for fault in self._faults:
            fault.release()
        self._faults.clear()

    def outage(self, kind: str | None = "cut") -> None:
        """From now on every call is cut, or answered with 500 or 502 HTML; None ends it. Open polls end too."""
        if kind not in (None, *_OUTAGES):
            raise ValueError(f"outage is one of {sorted(_OUTAGES)} or None, not {kind!r}")
        self._outage = kind
        if kind is not None:
            self.drop_connections()

    def drop_connections(self, *, idle_only: bool = False) -> int:
        """Close connections as a server, proxy or network does without a word; return how many."""
        doomed = [t for t in self._transports if not t.is_closing() and not (idle_only and t in self._busy)]
        for transport in doomed:
            transport.close()
        self._transports.clear()
        return len(doomed)

    async def go_down(self) -> None:
        """Stop listening: connections are refused until `come_back`."""
        assert self._runner is not None
        for site in list(self._runner.sites):
            await site.stop()
        self.drop_connections()
        for _ in range(3):
            await asyncio.sleep(0)  # closed sockets leave on the next turns of the loop

    async def come_back(self) -> None:
        """Listen (again), on the same port."""
        assert self._runner is not None
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def wait_calls(self, method: str, count: int = 1, *, timeout: float = 10) -> list[Call]:
        """Return the ended calls of a method once there are `count`; TimeoutError says how many there were."""

        def ended() -> list[Call]:
            return [c for c in self.calls if c.method.lower() == method.lower() and c.status is not None]

        if not await self.changes.until(lambda: len(ended()) >= count, timeout):
            raise TimeoutError(f"{len(ended())} of {count} calls of {method} after {timeout} s")
        return ended()

    # the wire

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        params = await _params(request)
        transport = request.transport
        if transport is not None:
            self._transports.add(transport)
            self._busy.add(transport)
        call = Call(method=request.match_info["method"], params=params.values, at=self.now())
        self.calls.append(call)
        try:
            return await self._respond(request, call, params)
        finally:
            if transport is not None:
                self._busy.discard(transport)
                self._transports = {t for t in self._transports if not t.is_closing()}
            self.changes.touch()

    async def _respond(self, request: web.Request, call: Call, params: Params) -> web.StreamResponse:
        if self._outage is not None:
            return self._broken(
                request, call, FaultKind.CUT_BEFORE if self._outage == "cut" else FaultKind(self._outage)
            )
        if request.match_info["token"] != self.token:
            is_token = re.fullmatch(r"\d+:[\w-]+", request.match_info["token"])
            words = BotApiError(401, "Unauthorized") if is_token else BotApiError(404, "Not Found")
            return _reply(call, words.code, words.wire())
        fault = self._fault_for(call.method, params)
        self.changes.touch()
        if fault is not None and fault.kind is FaultKind.TOO_MANY:
            return _reply(call, 429, too_many(fault.retry_after))
        if fault is not None and fault.kind is FaultKind.ERROR:
            error = BotApiError(fault.code, fault.description, fault.parameters)
            return _reply(call, error.code, error.wire())
        if fault is not None and fault.kind in _WITHOUT_EFFECT:
            return self._broken(request, call, fault.kind)
        wait = self._over_rate(call.method, params)
        if wait:
            return _reply(call, 429, too_many(wait))
        return await self._carry_out(request, call, params, fault)

    async def _carry_out(
        self, request: web.Request, call: Call, params: Params, fault: Fault | None
    ) -> web.StreamResponse:
        if fault is not None and fault.kind is FaultKind.HOLD_BEFORE:
            await fault.wait()
        if fault is not None and fault.kind is FaultKind.LOSE_THREAD:
            params.values.pop("message_thread_id", None)
        try:
            result = await self._methods.call(call.method, params)
        except BotApiError as error:
            return _reply(call, error.code, error.wire())
        call.result = result
        self.changes.touch()
        if fault is None:
            return _reply(call, 200, {"ok": True, "result": result})
        await fault.wait()
        if fault.kind is FaultKind.CUT_AFTER:
            return self._broken(request, call, fault.kind)
        if fault.kind is FaultKind.NOT_JSON:
            call.status = 200
            return web.Response(text="<html>ok</html>", content_type="text/html")
        if fault.kind is FaultKind.ZERO_ID and isinstance(result, dict):
            result = result | {"message_id": 0}
        response = _reply(call, 200, {"ok": True, "result": result})
        if fault.kind is FaultKind.CLOSE:
            await response.prepare(request)
            await response.write_eof()
            self._cut(request, gently=True)
        return response

    def _broken(self, request: web.Request, call: Call, kind: FaultKind) -> web.StreamResponse:
        if kind is FaultKind.HTML_502:
            call.status = 502
            return web.Response(status=502, text=HTML_502, content_type="text/html")
        if kind is FaultKind.ERROR_500:
            return _reply(call, 500, BotApiError(500, "Internal Server Error").wire())
        self._cut(request, gently=False)
        return web.Response()

    def _cut(self, request: web.Request, *, gently: bool) -> None:
        transport = request.transport
        if transport is not None:
            (transport.close if gently else transport.abort)()

    def _fault_for(self, method: str, params: Params) -> Fault | None:
        chat = self._chat_of(params)
        return next((f for f in self._faults if f.matches(method.lower(), chat)), None)

    def _over_rate(self, method: str, params: Params) -> int:
        if not self.enforce_rates or method.lower() not in _SENDS:
            return 0
        return self._limits.retry_after(self._chat_of(params) or 0, self._monotonic())

    def _chat_of(self, params: Params) -> int | None:
        chat = self.find(params.text("chat_id")) if params.text("chat_id") else None
        return None if chat is None else chat.id

    async def _download(self, request: web.Request) -> web.StreamResponse:
        content = self.files.get(request.match_info["file_id"])
        if request.match_info["token"] != self.token or content is None:
            return web.json_response(BotApiError(404, "Not Found").wire(), status=404)
        return web.Response(body=content)


def _reply(call: Call, status: int, body: Json) -> web.Response:
    call.status, call.error = status, body.get("description")
    headers = {"Retry-After": str(body["parameters"]["retry_after"])} if status == 429 else {}
    return web.json_response(body, status=status, headers=headers)


async def _params(request: web.Request) -> Params:
    """Read a call's parameters from wherever the Bot API takes them: query, form, multipart or JSON."""
    values = dict(request.query)
    files: dict[str, Upload] = {}
    if request.content_type == "application/json":
        for name, value in (await request.json()).items():
            values[name] = value if isinstance(value, str) else json.dumps(value)
    else:
        for name, part in (await request.post()).items():
            if isinstance(part, FileField):
                files[name] = Upload(name=part.filename, mime_type=part.content_type, content=part.file.read())
            elif isinstance(part, str):
                values[name] = part
    return Params(values=values, files=files)


async def _serve(token: str, username: str, port: int) -> None:
    async with TelegramServer(token=token, username=username, port=port) as server:
        print(json.dumps({"url": server.url, "port": server.port, "token": token}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run on its own until it is killed; the first line on stdout says where it listens."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default=DEFAULT_TOKEN)
    parser.add_argument("--username", default="brief_bot")
    args = parser.parse_args()
    asyncio.run(_serve(args.token, args.username, args.port))


if __name__ == "__main__":
    main()
