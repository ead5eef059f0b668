"""Where a Telegram message is: chat, kind, topic, and the message that it answers. Pure, over the platform's JSON.

https://core.telegram.org/bots/api#message
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from delivery.model import Address, ChatKind

Json = Mapping[str, Any]
"""An object as the platform wrote it; what is read from it may be missing or of another type than documented."""

GENERAL = 1
"""The id by which a forum's General topic is sometimes named; it is refused on sending."""

_KINDS = {
    "private": ChatKind.DM,
    "group": ChatKind.GROUP,
    "supergroup": ChatKind.GROUP,
    "channel": ChatKind.CHANNEL,
}


def kind_of(chat: Json) -> ChatKind:
    """Return what kind of chat a Chat object is. Raises KeyError for a kind that is not known."""
    kind = _KINDS[chat["type"]]
    return ChatKind.FORUM if kind is ChatKind.GROUP and chat.get("is_forum") else kind


def name_of(chat: Json) -> str:
    """Return how people call a chat: its title, else the person's name."""
    person = " ".join(part for part in (chat.get("first_name"), chat.get("last_name")) if part)
    return str(chat.get("title") or person or chat.get("username") or chat["id"])


def topic_of(message: Json) -> str | None:
    """Return the topic that a message lies in. A `message_thread_id` outside a topic message is no topic."""
    thread = message.get("message_thread_id")
    if not message.get("is_topic_message") or thread is None or int(thread) == GENERAL:
        return None
    return str(int(thread))


def root_of(message: Json) -> str | None:
    """Return the message that this one answers.

    In a topic every plain message carries the topic's opening message as the one it replies to: that answers
    nothing.
    """
    answered = message.get("reply_to_message")
    if not isinstance(answered, Mapping):
        return None
    is_opening = "forum_topic_created" in answered or (
        bool(message.get("is_topic_message")) and answered["message_id"] == message.get("message_thread_id")
    )
    return None if is_opening else str(int(answered["message_id"]))


def thread_of(message: Json) -> str | None:
    """Return the root of the reply thread that a message lies in, where that is no topic and not what it answers.

    Only supergroups have such threads.
    """
    thread = message.get("message_thread_id")
    if thread is None or message.get("is_topic_message") or message["chat"]["type"] != "supergroup":
        return None
    root = str(int(thread))
    return None if root == root_of(message) else root


def address_of(message: Json, *, account: str, workspace: str) -> Address:
    """Say where a message is. Raises KeyError, TypeError or ValueError if the platform's JSON does not."""
    return Address(
        account=account,
        workspace=workspace,
        chat=str(int(message["chat"]["id"])),
        chat_kind=kind_of(message["chat"]),
        topic=topic_of(message),
        message=str(int(message["message_id"])),
        root=root_of(message),
    )


def instant(seconds: object) -> datetime:
    """Read the platform's Unix seconds."""
    if not isinstance(seconds, int):
        raise TypeError("a date is a number of seconds")
    return datetime.fromtimestamp(seconds, UTC)
