"""The Telegram test server's control API, for tests that run the program in another process.

`POST /__test/VERB` with a JSON object of the verb's arguments answers `{"result": ...}`, or 400 `{"error": ...}`.
The verbs are TelegramServer's own: add_user, private, add_chat, say, edit, channel_post, service, topic, press,
react, block, unblock, set_bot_status, migrate, redeliver, fault, clear_faults, outage, drop_connections, wait_posts,
wait_read, wait_calls, expire, set. `set` takes can_read_all_group_messages, has_topics_enabled, enforce_rates, token.
`GET /__test/posts?chat=ID`, `/__test/calls?method=NAME`, `/__test/updates` read.
Faults that hold are let go by clear_faults.
"""

import inspect
from typing import TYPE_CHECKING

from aiohttp import web
from servers.telegram_faults import Fault
from servers.telegram_model import BotApiError, Chat, Json, Topic, User

if TYPE_CHECKING:
    from servers.telegram import TelegramServer

_VERBS = frozenset(
    [
        "add_user",
        "private",
        "add_chat",
        "say",
        "edit",
        "channel_post",
        "service",
        "topic",
        "press",
        "react",
        "block",
        "unblock",
        "set_bot_status",
        "migrate",
        "redeliver",
        "fault",
        "clear_faults",
        "outage",
        "drop_connections",
        "wait_posts",
        "wait_read",
        "wait_calls",
    ]
)
_SETTINGS = frozenset({"can_read_all_group_messages", "has_topics_enabled", "enforce_rates", "token"})


def control_routes(server: "TelegramServer") -> list[web.RouteDef]:
    """Return the routes below /__test/."""

    async def verb(request: web.Request) -> web.Response:
        name = request.match_info["verb"]
        arguments: Json = await request.json() if request.can_read_body else {}
        try:
            result = await _perform(server, name, arguments)
        except (LookupError, TypeError, ValueError, TimeoutError, BotApiError) as error:
            return web.json_response({"error": f"{name}: {error}"}, status=400)
        return web.json_response({"result": _plain(result)})

    async def posts(request: web.Request) -> web.Response:
        return web.json_response({"result": server.posts(request.query.get("chat"))})

    async def calls(request: web.Request) -> web.Response:
        method = request.query.get("method", "").lower()
        found = [call.wire() for call in server.calls if method in ("", call.method.lower())]
        return web.json_response({"result": found})

    async def updates(request: web.Request) -> web.Response:
        queue = server.updates
        return web.json_response({"result": {"all": queue.everything, "pending": len(queue.pending)}})

    return [
        web.post("/__test/{verb}", verb),
        web.get("/__test/posts", posts),
        web.get("/__test/calls", calls),
        web.get("/__test/updates", updates),
    ]


async def _perform(server: "TelegramServer", name: str, arguments: Json) -> object:
    if name == "set":
        for setting, value in arguments.items():
            if setting not in _SETTINGS:
                raise LookupError(f"no setting {setting!r}, only {sorted(_SETTINGS)}")
            setattr(server, setting, value)
        return True
    if name == "expire":
        return server.updates.expire()
    if name not in _VERBS:
        raise LookupError(f"no such verb, only {sorted(_VERBS | {'set', 'expire'})}")
    result = getattr(server, name)(**arguments)
    return await result if inspect.isawaitable(result) else result


def _plain(value: object) -> object:
    if isinstance(value, User | Chat | Topic):
        return value.wire()
    if isinstance(value, Fault):
        return {"kind": value.kind.value, "times": value.times}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    wire = getattr(value, "wire", None)
    return wire() if callable(wire) else value
