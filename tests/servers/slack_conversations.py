"""conversations.* and users.*: finding places and people, and reading back."""

from typing import TypeVar

from servers.slack_api import Api, cursor_for, flag, read_cursor, required, stamp
from servers.slack_blocks import ApiError
from servers.slack_render import channel_json, message_json
from servers.slack_world import Channel, Json, Kind, Message

T = TypeVar("T")


def history(api: Api, args: Json) -> Json:
    """Read a conversation, newest first; replies in threads are not in it."""
    channel = api.readable(required(args, "channel"))
    found = _within(channel.top_level(), args)[::-1]
    following = read_cursor(args)
    if following is not None:
        found = [m for m in found if stamp(m.ts, "") <= stamp(following, "invalid_cursor")]
    return {**_page(api, args, found, api.limit(args, 100, 999)), "pin_count": 0}


def replies(api: Api, args: Json) -> Json:
    """Read a thread, oldest first. The root leads the first page whatever the window; later pages omit it."""
    channel = api.readable(required(args, "channel"))
    message = channel.find(str(args.get("ts") or ""))
    if message is None:
        raise ApiError("thread_not_found")
    root = _root(channel, message)
    found = _within(channel.replies(root.ts), args)
    following = read_cursor(args)
    if following is None:
        found = [root, *found]
    else:
        found = [m for m in found if stamp(m.ts, "") >= stamp(following, "invalid_cursor")]
    return _page(api, args, found, api.limit(args, 1000, 1000))


def list_(api: Api, args: Json) -> Json:
    """List the conversations of the kinds asked for; of those not public, only ours."""
    kinds = [k.strip() for k in str(args.get("types") or Kind.PUBLIC).split(",")]
    if not set(kinds) <= set(Kind):
        raise ApiError("invalid_types")
    for kind in kinds:
        api.need(f"{Kind(kind).scope}:read")
    world = api.world
    found = [c for c in world.channels.values() if c.kind in kinds]
    found = [c for c in found if c.kind is Kind.PUBLIC or world.is_member(c)]
    if flag(args, "exclude_archived"):
        found = [c for c in found if not c.is_archived]
    page, following = _slice(found, args, api.limit(args, 100, 999))
    shown = [channel_json(world, c) for c in page]
    return {"channels": shown, "response_metadata": {"next_cursor": following}}


def info(api: Api, args: Json) -> Json:
    """Describe one conversation."""
    channel = api.seen(required(args, "channel"))
    api.need(f"{channel.kind.scope}:read")
    return {"channel": channel_json(api.world, channel)}


def open_(api: Api, args: Json) -> Json:
    """Open the direct or group conversation with those people, or find it."""
    if args.get("channel"):
        return {"channel": {"id": api.seen(args["channel"]).id}}
    raw = args.get("users")
    users = [str(u) for u in raw] if isinstance(raw, list) else [u for u in str(raw or "").split(",") if u]
    if not users:
        raise ApiError("users_list_not_supplied")
    if any(u not in api.world.users for u in users):
        raise ApiError("user_not_found")
    api.need("im:write" if len(users) == 1 else "mpim:write")
    before = len(api.world.channels)
    channel = api.world.open_im(users[0]) if len(users) == 1 else api.world.open_mpim(users)
    is_new = len(api.world.channels) > before
    shown = channel_json(api.world, channel) if flag(args, "return_im") else {"id": channel.id}
    return {"channel": shown} if is_new else {"channel": shown, "no_op": True, "already_open": True}


def users_info(api: Api, args: Json) -> Json:
    """Describe one person."""
    user = api.world.users.get(required(args, "user"))
    if user is None:
        raise ApiError("user_not_found")
    return {"user": user.as_json()}


def users_list(api: Api, args: Json) -> Json:
    """List the people."""
    page, following = _slice(list(api.world.users.values()), args, api.limit(args, 1000, 1000))
    return {
        "members": [u.as_json() for u in page],
        "cache_ts": api.world.clock.seconds(),
        "response_metadata": {"next_cursor": following},
    }


def _root(channel: Channel, message: Message) -> Message:
    if message.thread_ts is None:
        return message
    return channel.find(message.thread_ts) or message


def _within(messages: list[Message], args: Json) -> list[Message]:
    oldest = stamp(args.get("oldest") or "0", "invalid_ts_oldest")
    latest = args.get("latest")
    top = stamp(latest, "invalid_ts_latest") if latest not in (None, "", "now") else None
    ends = {oldest, top} if flag(args, "inclusive") else set()
    kept = []
    for message in messages:
        at = stamp(message.ts, "")
        if at in ends or (at > oldest and (top is None or at < top)):
            kept.append(message)
    return kept


def _page(api: Api, args: Json, found: list[Message], size: int) -> Json:
    with_all = flag(args, "include_all_metadata")
    page, rest = found[:size], found[size:]
    out: Json = {
        "messages": [message_json(api.world, m, all_metadata=with_all) for m in page],
        "has_more": bool(rest),
    }
    if rest:
        out["response_metadata"] = {"next_cursor": cursor_for(rest[0].ts)}
    return out


def _slice(found: list[T], args: Json, size: int) -> tuple[list[T], str]:
    try:
        start = int(read_cursor(args) or 0)
    except ValueError:
        raise ApiError("invalid_cursor") from None
    end = start + size
    return found[start:end], cursor_for(str(end)) if end < len(found) else ""
