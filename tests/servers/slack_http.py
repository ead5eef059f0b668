"""The Web API over HTTP: bodies, tokens, headers, faults; and the upload address."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from servers import slack_chat, slack_conversations, slack_files
from servers.slack_api import Api
from servers.slack_blocks import ApiError
from servers.slack_faults import BEFORE, Call, Fault, FaultKind, Faults, Outage
from servers.slack_world import Json

Handler = Callable[[Api, Json], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of the Web API and the scope it takes; some find out for themselves which."""

    run: Handler
    scope: str | None = None


def auth_test(api: Api, args: Json) -> Json:
    """Say who the bot token is."""
    world = api.world
    out: Json = {
        "url": f"https://{world.team_name.lower()}.slack.com/",
        "team": world.team_name,
        "user": world.users[world.bot_user].name,
        "team_id": world.team,
        "user_id": world.bot_user,
        "bot_id": world.bot_id,
        "is_enterprise_install": world.enterprise is not None,
    }
    return out if world.enterprise is None else {**out, "enterprise_id": world.enterprise}


def connections_open(api: Api, args: Json) -> Json:
    """Give an address for one WebSocket."""
    if "connections:write" not in api.app_scopes:
        raise ApiError("missing_scope", needed="connections:write", provided=",".join(sorted(api.app_scopes)))
    link = api.url.replace("http://", "ws://", 1)
    return {"url": f"{link}/link/?ticket={api.ticket()}&app_id={api.world.app}"}


METHODS = {
    "auth.test": Method(run=auth_test),
    "chat.postMessage": Method(run=slack_chat.post_message, scope="chat:write"),
    "chat.update": Method(run=slack_chat.update, scope="chat:write"),
    "chat.delete": Method(run=slack_chat.delete, scope="chat:write"),
    "assistant.threads.setStatus": Method(run=slack_chat.set_status, scope="chat:write"),
    "conversations.history": Method(run=slack_conversations.history),
    "conversations.replies": Method(run=slack_conversations.replies),
    "conversations.list": Method(run=slack_conversations.list_),
    "conversations.info": Method(run=slack_conversations.info),
    "conversations.open": Method(run=slack_conversations.open_),
    "users.info": Method(run=slack_conversations.users_info, scope="users:read"),
    "users.list": Method(run=slack_conversations.users_list, scope="users:read"),
    "files.getUploadURLExternal": Method(run=slack_files.upload_url, scope="files:write"),
    "files.completeUploadExternal": Method(run=slack_files.complete, scope="files:write"),
    "files.info": Method(run=slack_files.info, scope="files:read"),
    "apps.connections.open": Method(run=connections_open),
}


class WebApi:
    """Answers /api/<method>, records every call, and does to it what the test ordered."""

    def __init__(
        self, api: Api, *, bot_token: str, app_token: str, faults: Faults, changed: Callable[[], None]
    ) -> None:
        self.calls: list[Call] = []
        self.outage: Outage | None = None
        self._api = api
        self._tokens = {bot_token: "bot", app_token: "app"}
        self._faults = faults
        self._changed = changed

    def routes(self) -> list[web.RouteDef]:
        """Return what to serve."""
        return [
            web.route("*", "/api/{method}", self.serve),
            web.post("/upload/v1/{file}", self.upload),
        ]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one call."""
        if self.outage is not None:
            return cut(request) if self.outage is Outage.CUT else web.Response(status=503)
        args = await _arguments(request)
        token = _token(request, args)
        method = request.match_info["method"]
        call = Call(method=method, args=args, token=token, began_at=time.time())
        self.calls.append(call)
        self._changed()
        fault = self._faults.for_call(method, self._channel_of(args))
        try:
            return await self._answer(request, call, fault)
        finally:
            call.ended_at = time.time()
            self._changed()

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Take a file's bytes."""
        file = self._api.files.get(request.match_info["file"])
        if self.outage is not None:
            return cut(request)
        if file is None:
            return web.Response(status=404)
        file.data = await request.read()
        return web.Response(text=f"OK - {len(file.data)}", content_type="text/plain")

    async def _answer(self, request: web.Request, call: Call, fault: Fault | None) -> web.StreamResponse:
        if fault is not None and fault.kind in BEFORE:
            return self._refuse(request, call, fault)
        if fault is not None and fault.kind is FaultKind.SLOW_BEFORE:
            await asyncio.sleep(fault.seconds)
        body = self._run(call)
        self._changed()
        if fault is None or fault.kind is FaultKind.SLOW_BEFORE:
            return self._json(call.method, body)
        return await self._spoil(request, call, fault, body)

    def _run(self, call: Call) -> Json:
        try:
            body = {"ok": True, **self._checked(call).run(self._api, call.args)}
        except ApiError as problem:
            call.result = problem.code
            return {"ok": False, "error": problem.code, **problem.extra}
        call.result = "ok"
        return body

    def _checked(self, call: Call) -> Method:
        """Return the method if this token may call it."""
        method = METHODS.get(call.method)
        if method is None:
            raise ApiError("unknown_method", req_method=call.method)
        if call.token is None:
            raise ApiError("not_authed")
        kind = self._tokens.get(call.token)
        if kind is None:
            raise ApiError("invalid_auth")
        if (kind == "app") != (call.method == "apps.connections.open"):
            raise ApiError("not_allowed_token_type")
        if method.scope is not None:
            self._api.need(method.scope)
        return method

    def _refuse(self, request: web.Request, call: Call, fault: Fault) -> web.StreamResponse:
        call.result = fault.code if fault.kind is FaultKind.ERROR else fault.kind.value
        if fault.kind is FaultKind.CUT_BEFORE:
            return cut(request)
        if fault.kind is FaultKind.HTTP_500_BEFORE:
            return web.Response(status=500, text="Internal Server Error")
        if fault.kind is FaultKind.ERROR:
            return self._json(call.method, {"ok": False, "error": fault.code})
        limited = self._json(call.method, {"ok": False, "error": "ratelimited"}, status=429)
        limited.headers["Retry-After"] = str(fault.retry_after)
        return limited

    async def _spoil(self, request: web.Request, call: Call, fault: Fault, body: Json) -> web.StreamResponse:
        if fault.kind is FaultKind.SLOW:
            await asyncio.sleep(fault.seconds)
            return self._json(call.method, body)
        call.result = fault.code if fault.kind is FaultKind.ERROR_AFTER else fault.kind.value
        if fault.kind is FaultKind.TRUNCATED:
            return await _truncated(request, json.dumps(body))
        if fault.kind is FaultKind.HTTP_500_AFTER:
            return web.Response(status=500, text="Internal Server Error")
        if fault.kind is FaultKind.HTML:
            return web.Response(text="<html><body>Bad gateway</body></html>", content_type="text/html")
        if fault.kind is FaultKind.ERROR_AFTER:
            return self._json(call.method, {"ok": False, "error": fault.code})
        return cut(request)

    def _json(self, method: str, body: Json, status: int = 200) -> web.Response:
        response = web.json_response(body, status=status)
        rights = self._api.app_scopes if method == "apps.connections.open" else self._api.scopes
        response.headers["x-oauth-scopes"] = ",".join(sorted(rights))
        known = METHODS.get(method)
        if known is not None and known.scope is not None:
            response.headers["x-accepted-oauth-scopes"] = known.scope
        response.headers["x-slack-req-id"] = self._api.world.fresh("req")
        return response

    def _channel_of(self, args: Json) -> str | None:
        ref = str(args.get("channel") or args.get("channel_id") or "")
        try:
            return self._api.writable(ref).id
        except ApiError:
            return ref


def cut(request: web.Request) -> web.Response:
    """Drop the connection without a word."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _truncated(request: web.Request, body: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json; charset=utf-8"})
    response.content_length = len(body.encode())
    response.force_close()
    await response.prepare(request)
    await response.write(body.encode()[: len(body.encode()) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


async def _arguments(request: web.Request) -> Json:
    args: Json = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = json.loads(await request.text() or "{}")
        except ValueError:
            body = {}
        args.update(body if isinstance(body, dict) else {})
    elif request.can_read_body:
        args.update({k: v for k, v in (await request.post()).items() if isinstance(v, str)})
    return args


def _token(request: web.Request, args: Json) -> str | None:
    header = request.headers.get("Authorization", "")
    given = args.pop("token", None)
    if header.startswith("Bearer "):
        return header.removeprefix("Bearer ").strip()
    return None if given is None else str(given)
