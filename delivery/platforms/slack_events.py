"""Reads what Slack tells us into words of ours: messages, edits, mentions, slash commands. Pure.

Event shapes: https://docs.slack.dev/reference/events/message
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delivery.model import Address, Author, ChatKind, Inbound
from delivery.platforms.slack_calls import Json
from delivery.platforms.slack_time import at_of, is_ts, root_of
from delivery.platforms.slack_words import Name, linked_messages, readable, strip_mention, users_named

HEARD_SUBTYPES = frozenset({None, "", "file_share", "thread_broadcast", "me_message", "bot_message"})
KINDS: Mapping[str, ChatKind] = {
    "im": ChatKind.DM,
    "mpim": ChatKind.GROUP,
    "channel": ChatKind.CHANNEL,
    "group": ChatKind.CHANNEL,
}
SLACKBOT = "USLACKBOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Us:
    """Who we are in the workspace, as `auth.test` says."""

    account: str
    workspace: str
    bot_user: str | None
    bot_id: str | None

    def wrote(self, message: Json) -> bool:
        """Whether a message is our own: by user id or by bot id."""
        return (self.bot_user is not None and message.get("user") == self.bot_user) or (
            self.bot_id is not None and message.get("bot_id") == self.bot_id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMoved:
    """A channel has a new id, as when a private one becomes shared."""

    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One message as it was told to us, by an event or by reading back."""

    message: Json
    chat: str
    kind: ChatKind | None  # None: the event does not say
    is_mention: bool = False
    is_edit: bool = False

    @property
    def people(self) -> frozenset[str]:
        """Return the ids whose names are needed to read it: the author's, and the mentioned people's."""
        author = self.message.get("user")
        named = users_named(_text(self.message))
        return named | {author} if isinstance(author, str) and author else named


def read_event(event: Json, us: Us) -> Post | ChatMoved | None:
    """Say what an event means for us; None: nothing."""
    match event.get("type"):
        case "message":
            return _message(event, us)
        case "app_mention":
            return _post(event, event, us, is_mention=True)
        case "channel_id_changed":
            return _moved(event)
    return None


def _message(event: Json, us: Us) -> Post | None:
    if event.get("subtype") != "message_changed":
        return _post(event, event, us)
    now, before = event.get("message"), event.get("previous_message")
    if not isinstance(now, Mapping) or _is_bot(now) or not _has_new_text(now, before):
        return None
    return _post(event, now, us, is_edit=True)


def _has_new_text(now: Json, before: object) -> bool:
    """Whether a person changed the text: Slack also tells of languages found, previews added, replies counted."""
    if isinstance(before, Mapping):
        return _text(now) != _text(before)
    return bool(now.get("edited"))


def _post(event: Json, message: Json, us: Us, *, is_mention: bool = False, is_edit: bool = False) -> Post | None:
    chat = event.get("channel")
    if not isinstance(chat, str) or not chat or us.wrote(message):
        return None
    if message.get("subtype") not in HEARD_SUBTYPES or not is_ts(message.get("ts")):
        return None
    kind = KINDS.get(str(event.get("channel_type"))) or (ChatKind.DM if chat.startswith("D") else None)
    return Post(message=message, chat=chat, kind=kind, is_mention=is_mention, is_edit=is_edit)


def _moved(event: Json) -> ChatMoved | None:
    old, new = event.get("old_channel_id"), event.get("new_channel_id")
    return ChatMoved(old=old, new=new) if isinstance(old, str) and isinstance(new, str) else None


def inbound_of(post: Post, us: Us, name: Name) -> Inbound:
    """Return a post as what a person said. `name` knows the names of users and channels."""
    message = post.message
    ts = str(message["ts"])
    root = root_of(ts, message.get("thread_ts"))
    raw = _text(message)
    text, is_named = strip_mention(raw, us.bot_user)
    shared = [one for one in message.get("attachments") or [] if _is_share(one, post.chat)]
    is_under_ours = root is not None and us.bot_user is not None and us.bot_user in _parents(message)
    quoted = dict.fromkeys((*linked_messages(raw, post.chat), *(str(one["ts"]) for one in shared)))
    return Inbound(
        address=Address(
            account=us.account,
            workspace=us.workspace,  # ours: the event's teams are the author's
            chat=post.chat,
            chat_kind=post.kind if post.kind is not None else ChatKind.CHANNEL,
            message=ts,
            root=root,
        ),
        author=_author(message, name),
        text=readable(text, name),
        at=_at(message, ts, is_edit=post.is_edit),
        mentioned=post.is_mention or is_named,
        is_edit=post.is_edit,
        quoted=tuple(one for one in quoted if one != ts),
        answers_us=is_under_ours or (us.bot_user is not None and us.bot_user in _authors(shared)),
        answered_at=at_of(root) if root is not None and is_under_ours else None,
    )


def _text(message: Json) -> str:
    text = message.get("text")
    if isinstance(text, str) and text:
        return text
    if not _is_bot(message):
        return ""
    said = [one.get("text") or one.get("fallback") for one in message.get("attachments") or [] if _is_mapping(one)]
    return "\n".join(one for one in said if isinstance(one, str))


def _is_bot(message: Json) -> bool:
    return bool(message.get("bot_id")) or message.get("subtype") == "bot_message" or message.get("user") == SLACKBOT


def _is_share(attachment: Any, chat: str) -> bool:
    return (
        _is_mapping(attachment)
        and bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))
        and attachment.get("channel_id") == chat
        and is_ts(attachment.get("ts"))
    )


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _authors(shared: list[Json]) -> set[object]:
    return {one.get("author_id") for one in shared}


def _parents(message: Json) -> set[object]:
    root = message.get("root")
    return {message.get("parent_user_id"), root.get("user") if isinstance(root, Mapping) else None}


def _author(message: Json, name: Name) -> Author:
    user, bot = message.get("user"), message.get("bot_id")
    profile = message.get("user_profile")
    profile = profile if isinstance(profile, Mapping) else {}
    who = str(user or bot or "unknown")
    known = name(who) or profile.get("display_name") or profile.get("real_name") or message.get("username")
    return Author(id=who, name=str(known or who), is_bot=_is_bot(message))


def _at(message: Json, ts: str, *, is_edit: bool) -> datetime:
    edited = message.get("edited")
    if is_edit and isinstance(edited, Mapping) and is_ts(edited.get("ts")):
        return at_of(str(edited["ts"]))
    return at_of(ts)


def read_slash(payload: Json, us: Us, *, at: datetime) -> Inbound | None:
    """Return a registered slash command as what a person said to us. Slack gives it no message id of its own."""
    chat, user, trigger = payload.get("channel_id"), payload.get("user_id"), payload.get("trigger_id")
    if not (isinstance(chat, str) and isinstance(user, str) and isinstance(trigger, str) and chat and trigger):
        return None
    words = f"{payload.get('command') or ''} {payload.get('text') or ''}".strip()
    return Inbound(
        address=Address(
            account=us.account,
            workspace=us.workspace,
            chat=chat,
            chat_kind=ChatKind.DM if chat.startswith("D") else ChatKind.CHANNEL,
            message=f"slash:{trigger}",
        ),
        author=Author(id=user, name=str(payload.get("user_name") or user)),
        text=readable(words, lambda _: None),
        at=at,
        mentioned=True,
    )
