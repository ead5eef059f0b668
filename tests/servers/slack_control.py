"""The test API over HTTP, for tests and people outside the server's process.

- `POST /__test/<command>` with a JSON object of that command's arguments, as SlackServer's methods take them;
  answers JSON: what the method returned (`{"ts": ...}` for what stores a message, else `{"ok": true, ...}`).
- `GET /__test/posts?channel=#ops&count=1&timeout=5` waits until the bot has posted that many and lists them;
  `calls?method=`, `acks`, `deliveries?ts=`, `sockets?count=1&timeout=5`, `statuses`, `messages?channel=`.
- A mistake is answered with 400 and `{"error": sentence}`.
"""

import argparse
import asyncio
import dataclasses
import json
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web
from servers.slack_sockets import Delivery
from servers.slack_world import Json

if TYPE_CHECKING:
    from servers.slack import SlackServer

COMMANDS = (
    "add_channel",
    "add_user",
    "bot_says",
    "change_channel_id",
    "clear_faults",
    "click",
    "complete_shares",
    "disconnect",
    "edit",
    "emit",
    "fault",
    "outage",
    "react",
    "remove",
    "say",
    "silence",
    "slash",
    "touch",
    "unfurl",
)
"""Methods of SlackServer that may be called by name."""

STAMPED = ("say", "bot_says")


def routes(server: "SlackServer") -> list[web.RouteDef]:
    """Return the control routes of one server."""

    async def command(request: web.Request) -> web.Response:
        return await _run(server, request)

    async def look(request: web.Request) -> web.Response:
        return await _look(server, request)

    return [web.post("/__test/{name}", command), web.get("/__test/{name}", look)]


async def _run(server: "SlackServer", request: web.Request) -> web.Response:
    name = request.match_info["name"]
    try:
        args = json.loads(await request.text() or "{}")
        if name == "set":
            return _json(_set(server, args))
        if name == "redeliver":
            return _json(_redeliver(server, **args))
        if name not in COMMANDS:
            raise KeyError(f"no command {name!r}; there are {', '.join(COMMANDS)}, redeliver, set")
        result = getattr(server, name)(**args)
        if isinstance(result, Awaitable):
            result = await result
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        return _json({"error": str(problem.args[0] if problem.args else problem)}, status=400)
    if name in STAMPED:
        return _json({"ts": result})
    return _json({"ok": True} if result is None else {"ok": True, "result": _plain(result)})


def _set(server: "SlackServer", args: Json) -> Json:
    """Change settings: patience, time_scale, ping_interval, scopes, app_scopes, page_cap, holds_shares, enterprise."""
    targets = {
        **dict.fromkeys(("patience", "time_scale", "ping_interval"), server.hub),
        **dict.fromkeys(("page_cap", "holds_shares"), server.api),
        "enterprise": server.world,
    }
    for key, value in args.items():
        if key in ("scopes", "app_scopes"):
            held: set[str] = getattr(server.api, key)
            held.clear()
            held.update(value)
        elif key in targets:
            setattr(targets[key], key, value)
        else:
            raise KeyError(f"no setting {key!r}; there are {', '.join(targets)}, scopes, app_scopes")
    return {"ok": True}


def _redeliver(server: "SlackServer", ts: str) -> Json:
    found = server.deliveries(ts)
    for delivery in found:
        server.redeliver(delivery)
    return {"ok": True, "result": len(found)}


async def _look(server: "SlackServer", request: web.Request) -> web.Response:
    query = request.query
    count, timeout = int(query.get("count", "0")), float(query.get("timeout", "5"))
    channel, method, ts = query.get("channel"), query.get("method"), query.get("ts")
    views: dict[str, Callable[[], list[Any]]] = {
        "posts": lambda: server.posts(channel),
        "calls": lambda: server.calls if method is None else server.calls_to(method),
        "acks": lambda: server.acks,
        "deliveries": lambda: server.deliveries(ts),
        "sockets": lambda: [{"number": s.number, "is_silent": s.is_silent} for s in server.hub.sockets],
        "statuses": lambda: server.statuses,
        "messages": lambda: list(server.world.channel(channel or "").messages.values()),
    }
    name = request.match_info["name"]
    if name not in views:
        return _json({"error": f"no view {name!r}; there are {', '.join(views)}"}, status=400)
    try:
        await server.until(lambda: len(views[name]()) >= count, timeout)
        return _json([_plain(one) for one in views[name]()])
    except TimeoutError:
        return _json({"error": f"fewer than {count} {name} within {timeout:g} s"}, status=408)
    except KeyError as problem:
        return _json({"error": str(problem.args[0])}, status=400)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {**found, "event_id": value.event_id} if isinstance(value, Delivery) else found
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, set):
        return sorted(value)
    return "(bytes)" if isinstance(value, bytes) else value


def _json(body: Any, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)


def main(make: "type[SlackServer]") -> None:
    """Run a server until it is told to end; print one JSON line with its addresses and tokens."""
    parser = argparse.ArgumentParser(description="A Slack for tests on a loopback port.")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--bot-token", default="xoxb-test-token")
    parser.add_argument("--app-token", default="xapp-1-test-token")
    parser.add_argument("--patience", type=float, default=3.0, help="seconds for an acknowledgement")
    parser.add_argument("--time-scale", type=float, default=1.0, help="scales redelivery after 0, 60 and 300 s")
    args = vars(parser.parse_args())

    async def serve() -> None:
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        async with make(**args) as server:
            facts = {
                "base_url": server.api_url,
                "control": f"{server.url}/__test/",
                "port": server.port,
                "bot_token": server.bot_token,
                "app_token": server.app_token,
            }
            print(json.dumps(facts), flush=True)
            await ended.wait()

    asyncio.run(serve())
