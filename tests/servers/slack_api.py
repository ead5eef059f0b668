"""What all Web API methods share: the app's rights, arguments, and finding the conversation meant."""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from servers.slack_blocks import ApiError
from servers.slack_events import Events
from servers.slack_world import Channel, Json, Kind, World

ALL_SCOPES = frozenset(
    {
        *(f"{kind}:{right}" for kind in ("channels", "groups", "im", "mpim") for right in ("history", "read")),
        "app_mentions:read",
        "assistant:write",
        "chat:write",
        "commands",
        "files:read",
        "files:write",
        "im:write",
        "mpim:write",
        "users:read",
    }
)

USER_ID = re.compile(r"[UW][A-Z0-9]+")


@dataclass(slots=True, kw_only=True)
class Status:
    """One call of assistant.threads.setStatus; an empty `status` clears it."""

    channel: str
    thread_ts: str
    status: str


@dataclass(slots=True, kw_only=True)
class File:
    """One file; `shares` is channel id to the ts of the message that carries it."""

    id: str
    name: str
    size: int
    title: str = ""
    data: bytes | None = None
    is_complete: bool = False
    shares: dict[str, str] = field(default_factory=dict)
    waiting: list[Json] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Api:
    """The workspace as the methods see it."""

    world: World
    events: Events
    scopes: set[str]
    app_scopes: set[str]
    url: str = ""  # http://host:port, without a slash
    ticket: Callable[[], str] = str
    page_cap: int | None = None  # 15 for apps outside the Marketplace
    holds_shares: bool = False  # files stay unshared until the test completes them
    statuses: list[Status] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)

    def need(self, scope: str) -> None:
        """Refuse the call if the token lacks the scope."""
        if scope not in self.scopes:
            raise ApiError("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))

    def seen(self, ref: object) -> Channel:
        """Return the conversation with that id if our app may know of it."""
        channel = self.world.channels.get(str(ref))
        if channel is None or (channel.kind is not Kind.PUBLIC and not self.world.is_member(channel)):
            raise ApiError("channel_not_found")
        return channel

    def readable(self, ref: object) -> Channel:
        """Return a conversation whose messages we may read: history scope of its kind, and membership."""
        channel = self.seen(ref)
        self.need(f"{channel.kind.scope}:history")
        if not self.world.is_member(channel):
            raise ApiError("not_in_channel")
        return channel

    def writable(self, ref: object) -> Channel:
        """Return the conversation that `channel=` of chat.postMessage means: an id, a name or a person."""
        text = str(ref or "")
        if USER_ID.fullmatch(text) and text in self.world.users:
            return self.world.open_im(text)
        name = text.removeprefix("#")
        by_name = {c.name: c.id for c in self.world.channels.values() if c.name}
        channel = self.seen(by_name.get(name, text))
        if not self.world.is_member(channel) and "chat:write.public" not in self.scopes:
            raise ApiError("not_in_channel")
        if channel.is_archived:
            raise ApiError("is_archived")
        return channel

    def limit(self, args: Json, default: int, most: int) -> int:
        """Return the page size asked for."""
        try:
            size = int(args.get("limit") or default)
        except ValueError:
            raise ApiError("invalid_limit") from None
        if size < 1:
            raise ApiError("invalid_limit")
        return min(size, most, self.page_cap or most)


def flag(args: Json, name: str) -> bool:
    """Read a boolean that may be JSON's, `1` or `true`."""
    return str(args.get(name, "")).lower() in ("1", "true")


def required(args: Json, name: str) -> str:
    """Return an argument that must be there."""
    value = args.get(name)
    if value is None or value == "":
        raise ApiError("invalid_arguments", response_metadata={"messages": [f"missing required field: {name}"]})
    return str(value)


def stamp(value: object, code: str) -> Decimal:
    """Return a ts as a number for comparing, or refuse with `code`."""
    try:
        return Decimal(str(value))
    except InvalidOperation:
        raise ApiError(code) from None


def cursor_for(what: str) -> str:
    """Return an opaque cursor."""
    return base64.b64encode(f"next:{what}".encode()).decode()


def read_cursor(args: Json) -> str | None:
    """Return what a cursor of ours holds, None on the first page."""
    if not args.get("cursor"):
        return None
    try:
        text = base64.b64decode(str(args["cursor"]), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ApiError("invalid_cursor") from None
    if not text.startswith("next:"):
        raise ApiError("invalid_cursor")
    return text.removeprefix("next:")
