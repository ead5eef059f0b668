"""How stored things look in Slack's JSON: messages in responses and events, conversations, threads."""

from servers.slack_world import Channel, Json, Kind, Message, World


def message_json(world: World, message: Message, *, all_metadata: bool = False) -> Json:
    """Return a message as the reading methods do.

    Without `all_metadata` only the metadata's event_type is shown.
    https://docs.slack.dev/messaging/message-metadata
    """
    out: Json = {"type": "message", "text": message.text, "ts": message.ts}
    _put(
        out,
        subtype=message.subtype,
        user=message.user,
        team=message.team,
        bot_id=message.bot_id,
        username=message.username,
        blocks=message.blocks,
        attachments=message.attachments,
        files=message.files,
        edited=message.edited,
    )
    if message.by_us:
        out["app_id"] = world.app
        out["bot_profile"] = bot_profile(world)
    if message.metadata is not None:
        kind = message.metadata["event_type"]
        out["metadata"] = dict(message.metadata) if all_metadata else {"event_type": kind}
    if message.reactions:
        out["reactions"] = [
            {"name": name, "users": list(users), "count": len(users)} for name, users in message.reactions.items()
        ]
    out.update(thread_fields(world, message))
    out.update(message.extra)
    return out


def thread_fields(world: World, message: Message) -> Json:
    """Return what a message says about its thread: as a root (counts) or as a reply (its parent)."""
    channel = world.channels[message.channel]
    if message.is_reply:
        assert message.thread_ts is not None
        root = channel.find(message.thread_ts)
        out: Json = {"thread_ts": message.thread_ts}
        if root is not None and root.user is not None:
            out["parent_user_id"] = root.user
        if message.subtype == "thread_broadcast" and root is not None:
            out["root"] = message_json(world, root)
        return out
    replies = channel.replies(message.ts)
    if not replies:
        return {}
    users = list(dict.fromkeys(r.user or r.bot_id for r in replies))
    return {
        "thread_ts": message.ts,
        "reply_count": len(replies),
        "reply_users_count": len(users),
        "reply_users": users,
        "latest_reply": replies[-1].ts,
        "is_locked": False,
        "subscribed": False,
    }


def bot_profile(world: World) -> Json:
    """Return the short description of our app that rides on its messages."""
    return {
        "id": world.bot_id,
        "app_id": world.app,
        "name": world.users[world.bot_user].name,
        "team_id": world.team,
        "deleted": False,
        "updated": 1700000000,
    }


def channel_json(world: World, channel: Channel) -> Json:
    """Return a conversation as conversations.info does."""
    if channel.kind is Kind.IM:
        return {
            "id": channel.id,
            "created": channel.created,
            "is_im": True,
            "is_org_shared": False,
            "user": channel.user,
            "is_user_deleted": False,
            "is_open": True,
        }
    is_private = channel.kind is not Kind.PUBLIC
    return {
        "id": channel.id,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": channel.kind is Kind.PUBLIC,
        "is_group": channel.kind is Kind.PRIVATE,
        "is_im": False,
        "is_mpim": channel.kind is Kind.MPIM,
        "is_private": is_private,
        "is_archived": channel.is_archived,
        "is_general": channel.name == "general",
        "is_member": world.is_member(channel),
        "is_shared": channel.is_ext_shared,
        "is_ext_shared": channel.is_ext_shared,
        "is_org_shared": False,
        "is_pending_ext_shared": False,
        "context_team_id": world.team,
        "created": channel.created,
        "creator": "U0KIM",
        "num_members": len(channel.members),
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0},
    }


def _put(out: Json, **fields: object) -> None:
    out.update({name: value for name, value in fields.items() if value is not None})
