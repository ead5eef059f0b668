"""chat.postMessage, chat.update, chat.delete and the status of a thread."""

import re

from servers.slack_api import Api, Status, flag, required
from servers.slack_blocks import (
    MAX_MARKDOWN,
    MAX_SINGLE_TEXT,
    MAX_TEXT,
    ApiError,
    checked_blocks,
    checked_metadata,
    invalid,
    parsed,
)
from servers.slack_render import message_json
from servers.slack_world import Channel, Json, Message

_TS = re.compile(r"\d{10}\.\d{6}")
_NUMBER = re.compile(r"\d+(\.\d+)?")


def post_message(api: Api, args: Json) -> Json:
    """Post, as one message or, for a long text without blocks, as several."""
    channel = api.writable(required(args, "channel"))
    content = _content(args)
    thread = _thread(channel, args)
    _refuse(channel, is_reply=bool(args.get("thread_ts")))
    metadata = checked_metadata(args.get("metadata"))
    stored = []
    for text in _pieces(str(content["text"]), is_alone=content["blocks"] is None):
        stored.append(_store(api, channel, args, {**content, "text": text}, thread, metadata))
    for message in stored:
        if not message.hidden:
            api.events.posted(message)
    first = stored[0]
    shown = message_json(api.world, first, all_metadata=True)
    return {"channel": channel.id, "ts": first.ts, "message": shown}


def update(api: Api, args: Json) -> Json:
    """Change one of our own messages. Blocks go away when only a text is given."""
    channel, message = _own(api, args, "cant_update_message")
    content = _content(args)
    if len(str(args.get("text") or "")) > MAX_SINGLE_TEXT:
        raise ApiError("msg_too_long")
    previous = message_json(api.world, message)
    message.edits.append(message.text)
    message.text, message.blocks = str(content["text"]), content["blocks"]
    if "metadata" in args:
        message.metadata = checked_metadata(args["metadata"])
    if content["blocks"] is None:
        message.edited = {"user": api.world.bot_user, "ts": api.world.clock.next_ts()}
    api.events.changed(message, previous=previous)
    shown = message_json(api.world, message, all_metadata=True)
    return {"channel": channel.id, "ts": message.ts, "text": message.text, "message": shown}


def delete(api: Api, args: Json) -> Json:
    """Remove one of our own messages; a root with replies leaves a tombstone."""
    channel, message = _own(api, args, "cant_delete_message")
    remove(api, message)
    return {"channel": channel.id, "ts": message.ts}


def remove(api: Api, message: Message) -> None:
    """Take a message away, whoever wrote it, and say so."""
    previous = message_json(api.world, message)
    if api.world.channels[message.channel].replies(message.ts):
        message.subtype, message.text, message.blocks = "tombstone", "This message was deleted.", None
        message.user, message.extra = "USLACKBOT", {"hidden": True}
    else:
        message.deleted = True
    api.events.deleted(message, previous=previous)


def set_status(api: Api, args: Json) -> Json:
    """Show "is thinking..." in a thread; there is no such thing at top level."""
    channel = api.seen(required(args, "channel_id"))
    thread_ts = required(args, "thread_ts")
    if channel.find(thread_ts) is None:
        raise ApiError("invalid_thread_ts")
    if args.get("status") is None:
        raise ApiError("invalid_arguments")
    api.statuses.append(Status(channel=channel.id, thread_ts=thread_ts, status=str(args["status"])))
    return {}


def _content(args: Json) -> Json:
    markdown, text = args.get("markdown_text"), args.get("text")
    blocks = checked_blocks(args.get("blocks"))
    attachments = parsed(args.get("attachments"), "invalid_attachments") or None
    if markdown:
        if text or blocks:
            raise ApiError("markdown_text_conflict")
        if len(str(markdown)) > MAX_MARKDOWN:
            raise ApiError("msg_too_long")
        blocks = [{"type": "markdown", "text": str(markdown)}]
        text = markdown
    if not text and not blocks and not attachments:
        raise ApiError("no_text")
    return {"text": str(text or ""), "blocks": blocks, "attachments": attachments}


def _pieces(text: str, *, is_alone: bool) -> list[str]:
    # Slack cuts a long text into several messages wherever the limit falls
    text = text[:MAX_TEXT]
    if not is_alone or len(text) <= MAX_SINGLE_TEXT:
        return [text]
    return [text[i : i + MAX_SINGLE_TEXT] for i in range(0, len(text), MAX_SINGLE_TEXT)]


def _refuse(channel: Channel, *, is_reply: bool) -> None:
    code = channel.refusal
    if code is None:
        return
    if code.endswith("thread_only_channel") and is_reply:
        return
    if code.endswith("non_threadable_channel") and not is_reply:
        return
    raise ApiError(code)


def _thread(channel: Channel, args: Json) -> Json:
    """Return the message's thread fields for what `thread_ts` says.

    - no number: `invalid_thread_ts` (https://github.com/jenkinsci/slack-plugin/issues/584)
    - not six decimals, as a float becomes: accepted, and nobody ever sees it
      (https://github.com/slackapi/python-slack-sdk/issues/840)
    - well formed, but no such message: accepted, silently posted at top level, without thread_ts in the
      response (https://github.com/slack-go/slack/issues/1571)
    - a reply's ts: scattered; shown in the channel too (https://github.com/slackapi/python-slack-sdk/issues/1116)
    """
    raw = args.get("thread_ts")
    if raw is None or raw == "":
        return {}
    text = str(raw)
    if not _NUMBER.fullmatch(text) or float(text) == 0:
        raise invalid("invalid_thread_ts", f"{text} is not a valid thread_ts")
    if not _TS.fullmatch(text):
        return {"thread_ts": text, "hidden": True}
    parent = channel.find(text)
    if parent is None:
        return {}
    if parent.is_reply:
        return {"thread_ts": text, "broadcast": True}
    if flag(args, "reply_broadcast"):
        return {"thread_ts": text, "broadcast": True, "subtype": "thread_broadcast"}
    return {"thread_ts": text}


def _store(api: Api, channel: Channel, args: Json, content: Json, thread: Json, metadata: Json | None) -> Message:
    world = api.world
    name = args.get("username")
    return world.store(
        Message(
            channel=channel.id,
            ts=world.clock.next_ts(),
            user=world.bot_user,
            team=world.team,
            bot_id=world.bot_id,
            username=None if name is None else str(name),
            metadata=metadata,
            by_us=True,
            **content,
            **{"subtype": None if name is None else "bot_message", **thread},
        )
    )


def _own(api: Api, args: Json, refusal: str) -> tuple[Channel, Message]:
    channel = api.seen(required(args, "channel"))
    message = channel.find(required(args, "ts"))
    if message is None:
        raise ApiError("message_not_found")
    if not message.by_us:
        raise ApiError(refusal)
    return channel, message
