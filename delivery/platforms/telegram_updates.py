"""What a Telegram update tells. Pure: the platform's JSON in, values out.

https://core.telegram.org/bots/api#update
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from delivery.model import Author, ChatKind, Inbound
from delivery.platforms.telegram_places import (
    Json,
    address_of,
    instant,
    kind_of,
    name_of,
    thread_of,
    topic_of,
)
from delivery.platforms.telegram_words import words_of
from delivery.ports import Chat

ALLOWED = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "my_chat_member",
    "callback_query",
)
"""The kinds of updates that are asked for; a bot that names none keeps whatever it named last."""

_BEGINNING = 1_000  # characters of an answered message that are told on

Spot = tuple[str, str]
"""A (chat, message)."""

CopyOf = Callable[[str, str], Spot | None]
"""Returns the channel's post of which a (chat, message) is the automatic forward, if that was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Our own bot, as its messages and mentions name it."""

    account: str
    id: int
    username: str | None
    reads_all: bool = False
    """Privacy mode is off: every message of its groups arrives, not only answers to it, commands and mentions."""
    has_topics: bool = False
    """Its private chats have topics."""

    @property
    def workspace(self) -> str:
        """The account's own id."""
        return str(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTopic:
    """A topic that our own bot opened."""

    chat: str
    topic: str
    name: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What one update tells; mostly one of these.

    `copied`: (the automatic forward, the channel's post of which it is one). `moved`: (old chat, new chat).
    `gone`: (chat, why nothing can be posted there any more). `back`: a chat that can be posted to. `pressed`:
    the id of a pressed button's query.
    """

    inbound: Inbound | None = None
    chats: tuple[Chat, ...] = ()
    gone: tuple[str, str] | None = None
    back: str | None = None
    moved: tuple[str, str] | None = None
    opened: OpenedTopic | None = None
    copied: tuple[Spot, Spot] | None = None
    pressed: str | None = None


def read_update(update: Json, me: Me, copy_of: CopyOf) -> News:
    """Read one update. Raises KeyError, TypeError, ValueError or AttributeError if it is not as documented."""
    for kind in ("message", "channel_post"):
        if kind in update:
            return _message(update[kind], me, copy_of)
    for kind in ("edited_message", "edited_channel_post"):
        if kind in update:
            return News(inbound=_inbound(update[kind], me, copy_of, is_edit=True))
    if "my_chat_member" in update:
        return _standing(update["my_chat_member"])
    if "callback_query" in update:
        return News(pressed=str(update["callback_query"]["id"]))
    return News()


# --- messages ---------------------------------------------------------------------------------------------


def _message(message: Json, me: Me, copy_of: CopyOf) -> News:
    chat = str(int(message["chat"]["id"]))
    if "migrate_to_chat_id" in message:
        return News(moved=(chat, str(int(message["migrate_to_chat_id"]))))
    if "migrate_from_chat_id" in message:
        return News(moved=(str(int(message["migrate_from_chat_id"])), chat), chats=(_chat(message["chat"]),))
    if message.get("is_automatic_forward"):
        origin = _channel_post(message)
        return News(copied=None if origin is None else ((chat, str(int(message["message_id"]))), origin))
    topic = message.get("forum_topic_created") or message.get("forum_topic_edited") or {}
    if topic.get("name"):
        return _named_topic(message, str(topic["name"]), me)
    if "new_chat_title" in message:
        return News(chats=(_chat(message["chat"]),))
    inbound = _inbound(message, me, copy_of, is_edit=False)
    return News(inbound=inbound, chats=() if inbound is None else (_chat(message["chat"]),))


def _named_topic(message: Json, name: str, me: Me) -> News:
    topic = str(int(message["message_thread_id"]))
    chat = _chat(message["chat"])
    is_ours = "forum_topic_created" in message and message.get("from", {}).get("id") == me.id
    opened = OpenedTopic(chat=chat.chat, topic=topic, name=name, at=instant(message["date"])) if is_ours else None
    return News(chats=(chat, Chat(chat=chat.chat, name=name, kind=chat.kind, topic=topic)), opened=opened)


def _chat(chat: Json) -> Chat:
    return Chat(chat=str(int(chat["id"])), name=name_of(chat), kind=kind_of(chat))


def _inbound(message: Json, me: Me, copy_of: CopyOf, *, is_edit: bool) -> Inbound | None:
    """Read what a person wrote; None for our own messages and for those in which nobody says anything."""
    if message.get("from", {}).get("id") == me.id or message.get("is_automatic_forward"):
        return None
    words = words_of(message, bot_id=me.id, username=me.username)
    if words is None:
        return None
    address = address_of(message, account=me.account, workspace=me.workspace)
    ours = _answered_of_ours(message, me)
    return Inbound(
        address=address,
        author=_author(message),
        text=words.text,
        at=instant(message.get("edit_date", message["date"]) if is_edit else message["date"]),
        mentioned=words.mentioned or address.chat_kind is ChatKind.DM,
        is_edit=is_edit,
        thread=thread_of(message),
        quoted=_quoted(message),
        answers_us=_answers_us(message, me),
        copied_root=_copied_root(message, copy_of),
        answered_at=None if ours is None else instant(ours["date"]),
        answered_text=None if ours is None else _beginning(ours),
    )


def _author(message: Json) -> Author:
    """Return who wrote it: a chat that speaks as itself (also an anonymous admin's) stands before the stand-in user."""
    if "sender_chat" in message:
        chat = message["sender_chat"]
        return Author(id=str(int(chat["id"])), name=name_of(chat))
    if "from" not in message:  # an old channel post
        return Author(id=str(int(message["chat"]["id"])), name=name_of(message["chat"]))
    user = message["from"]
    return Author(id=str(int(user["id"])), name=name_of(user), is_bot=bool(user.get("is_bot")))


def _quoted(message: Json) -> tuple[str, ...]:
    """Return the message of this very chat that it answers from another topic."""
    reply = message.get("external_reply")
    if not isinstance(reply, Mapping) or "message_id" not in reply:
        return ()
    is_here = reply.get("chat", {}).get("id") == message["chat"]["id"]
    return (str(int(reply["message_id"])),) if is_here else ()


def _answered_of_ours(message: Json, me: Me) -> Json | None:
    """Return the message of our own that it answers, as the platform repeats it."""
    answered = message.get("reply_to_message")
    if not isinstance(answered, Mapping) or "forum_topic_created" in answered or not answered.get("date"):
        return None
    return answered if answered.get("from", {}).get("id") == me.id else None


def _beginning(message: Json) -> str | None:
    text = message.get("text")
    return text[:_BEGINNING] if isinstance(text, str) else None


def _answers_us(message: Json, me: Me) -> bool:
    answered = message.get("reply_to_message")
    if isinstance(answered, Mapping) and "forum_topic_created" not in answered:
        return bool(answered.get("from", {}).get("id") == me.id)
    reply = message.get("external_reply")
    if not isinstance(reply, Mapping):
        return False
    is_here = reply.get("chat", {}).get("id", message["chat"]["id"]) == message["chat"]["id"]
    return is_here and bool(reply["origin"].get("sender_user", {}).get("id") == me.id)


def _copied_root(message: Json, copy_of: CopyOf) -> Spot | None:
    """Return the channel's post under whose automatic forward a comment stands."""
    answered = message.get("reply_to_message")
    if isinstance(answered, Mapping) and answered.get("is_automatic_forward"):
        return _channel_post(answered)
    thread = message.get("message_thread_id")
    if thread is None or topic_of(message) is not None:
        return None
    return copy_of(str(int(message["chat"]["id"])), str(int(thread)))


def _channel_post(forward: Json) -> Spot | None:
    origin = forward.get("forward_origin")
    if not isinstance(origin, Mapping) or origin.get("type") != "channel":
        return None
    return str(int(origin["chat"]["id"])), str(int(origin["message_id"]))


# --- coming and going -------------------------------------------------------------------------------------


def _standing(change: Json) -> News:
    """Read what became of our bot in a chat."""
    chat, new = _chat(change["chat"]), change["new_chat_member"]
    is_out = new["status"] in ("left", "kicked") or (new["status"] == "restricted" and new.get("is_member") is False)
    if not is_out:
        return News(chats=(chat,), back=chat.chat)
    if chat.kind is ChatKind.DM:
        return News(gone=(chat.chat, "the person has blocked the bot"))
    return News(gone=(chat.chat, f"the bot was removed from {chat.name}"))
