"""What the Bot API's answers mean for what may be done next. Pure: no socket, no SDK.

https://core.telegram.org/bots/api#making-requests
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from delivery.model import (
    Address,
    InDoubt,
    NotSent,
    OutgoingPart,
    Receipt,
    Rejected,
    SendResult,
    Sent,
    Throttled,
)
from delivery.platforms.telegram_places import GENERAL, Json, address_of, instant

UNNAMED_WAIT = 5.0
"""Seconds to wait after a 429 that does not say for how long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The platform said no, in its own words: nothing was done. `retry_after` in seconds."""

    status: int
    description: str
    retry_after: float | None = None
    moved_to: str | None = None

    def says(self, words: str) -> bool:
        """Whether these words stand in the refusal; case does not matter."""
        return words.casefold() in self.description.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreachable:
    """Not a byte of the request was written: nothing was done."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """Something of the request was written and no clear answer came: it may have been done."""

    reason: str


Failure = Refusal | Unreachable | Unclear


def read_failure(status: int, body: bytes) -> Failure:
    """Read an answer that is no success. Only the platform's own JSON below 500 is a refusal."""
    said = _object(body)
    description = None if said is None else said.get("description")
    if status >= 500 or said is None or not isinstance(description, str):
        return Unclear(reason=f"the server answered with HTTP {status}")
    parameters = said.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    wait, moved = parameters.get("retry_after"), parameters.get("migrate_to_chat_id")
    return Refusal(
        status=status,
        description=description,
        retry_after=float(wait) if isinstance(wait, int | float) else None,
        moved_to=str(moved) if isinstance(moved, int | str) and moved else None,
    )


def has_result(body: bytes) -> bool:
    """Whether a body is what a success looks like."""
    said = _object(body)
    return said is not None and said.get("ok") is True and "result" in said


def _object(body: bytes) -> Json | None:
    try:
        said = json.loads(body)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


# --- what could not be sent -----------------------------------------------------------------------------

_SENTENCES = (
    ("chat not found", "Telegram knows no chat {chat} for this bot: add the bot there, or let the person press Start"),
    ("message thread not found", "topic {topic} is not in chat {chat}: name one that is there in the target, or none"),
    ("topic_closed", "topic {topic} of chat {chat} is closed: open it, or let the bot manage topics"),
    ("rights to create a topic", "the bot may not open topics in chat {chat}: let it manage topics there"),
    ("chat is not a forum", "chat {chat} has no topics"),
    ("administrator rights in the channel", "the bot may not post in channel {chat}: make it an administrator there"),
    ("rights to send", "the bot may not write in chat {chat}: give it the right to send messages there"),
    ("chat_write_forbidden", "the bot may not write in chat {chat}: give it the right to send messages there"),
    ("blocked by the user", "the person has blocked the bot"),
    ("user is deactivated", "the person's account is no more"),
    ("was kicked", "the bot was removed from chat {chat}"),
    ("is not a member", "the bot is not in chat {chat}: add it there"),
    ("can't initiate conversation", "the person has never pressed Start in the chat with the bot"),
    ("bots can't send messages to bots", "{chat} is a bot, and bots cannot write to bots"),
)


def explain(refusal: Refusal, *, chat: str, topic: str | None = None) -> str:
    """Say in a sentence what a refusal means and what helps, with the platform's words behind it."""
    for words, sentence in _SENTENCES:
        if refusal.says(words):
            return f"{sentence.format(chat=chat, topic=topic)} (Telegram says: {refusal.description})"
    return f"Telegram refused it: {refusal.description}"


def is_login_refused(refusal: Refusal) -> bool:
    """Whether it is the token that was refused (404: it has not even the form of one)."""
    return refusal.status == 401 or (refusal.status == 404 and not refusal.says("method"))


def is_formatting_refused(failure: Failure) -> bool:
    """Whether only the entities were refused; nothing was posted then."""
    return isinstance(failure, Refusal) and failure.status == 400 and failure.says("entit")


def unsent(failure: Failure, address: Address) -> SendResult:
    """Say what may be done after a send to this place that failed."""
    match failure:
        case Unreachable():
            return NotSent(reason=failure.reason)
        case Unclear():
            return InDoubt(reason=failure.reason)
        case Refusal(status=429):
            return Throttled(retry_after=wait_of(failure))
        case Refusal(moved_to=str(new)):
            return Rejected(reason=f"chat {address.chat} became the supergroup {new}", moved_to=new)
    if is_login_refused(failure):
        return NotSent(reason=f"Telegram refused the token: {failure.description}", account_is_down=True)
    reason = explain(failure, chat=address.chat, topic=address.topic)
    return Rejected(reason=reason, chat_is_gone=failure.status == 403)


def wait_of(refusal: Refusal) -> float:
    """Return the seconds for which a 429 wants to be left alone."""
    return UNNAMED_WAIT if refusal.retry_after is None else refusal.retry_after


# --- what was sent ----------------------------------------------------------------------------------------


def posted(message: object, part: OutgoingPart, workspace: str, remark: str | None = None) -> SendResult:
    """Read the answer to a sendMessage: the receipt says where it really landed, whatever was asked for.

    `remark` says what else is not as asked.
    """
    unnamed = InDoubt(reason="Telegram answered, but named no message")
    if not isinstance(message, Mapping):
        return unnamed
    try:
        landed = address_of(message, account=part.address.account, workspace=workspace)
        at = instant(message["date"])
    except (KeyError, TypeError, ValueError):
        return unnamed
    if landed.message == "0":
        return InDoubt(reason="Telegram answered with message id 0, which confirms nothing")
    receipt = Receipt(address=landed, at=at, raw=_bare(message))
    remarks = [remark, _astray(part.address, landed)]
    return Sent(receipt=receipt, degraded="; ".join(one for one in remarks if one) or None)


def _astray(asked: Address, landed: Address) -> str | None:
    if landed.chat != asked.chat:
        return f"it landed in chat {landed.chat}, not in {asked.chat}"
    if landed.topic != asked_topic(asked):
        where = "outside any topic" if landed.topic is None else f"in topic {landed.topic}"
        wanted = "" if asked_topic(asked) is None else f", not in topic {asked_topic(asked)}"
        return f"it landed {where}{wanted}"
    if asked.root is not None and landed.root is None:
        return "it stands alone: the message that it answers is not there any more"
    return None


def asked_topic(address: Address) -> str | None:
    """Return the topic to post into: General is none."""
    return None if address.topic in (None, "", str(GENERAL)) else address.topic


def opened(topic: object, part: OutgoingPart, workspace: str, at: datetime) -> SendResult:
    """Read the answer to a createForumTopic: the topic's id is that of the message that opened it."""
    number = topic.get("message_thread_id") if isinstance(topic, Mapping) else None
    if not isinstance(number, int) or number <= 0:
        return InDoubt(reason="Telegram answered, but named no topic")
    return Sent(receipt=topic_receipt(part, workspace, str(number), at))


def topic_receipt(part: OutgoingPart, workspace: str, topic: str, at: datetime) -> Receipt:
    """Make the receipt of a topic that was opened for a part."""
    address = replace(part.address, workspace=workspace, topic=topic, message=topic, root=None)
    return Receipt(address=address, at=at, raw={"message_thread_id": int(topic)})


def _bare(message: Json) -> dict[str, object]:
    """Return what an answer says of places and times, without texts and names."""
    kept: dict[str, object] = {
        name: message[name]
        for name in ("message_id", "date", "message_thread_id", "is_topic_message")
        if name in message
    }
    kept["chat"] = {name: message["chat"][name] for name in ("id", "type", "is_forum") if name in message["chat"]}
    answered = message.get("reply_to_message")
    if isinstance(answered, Mapping):
        kept["reply_to"] = answered.get("message_id")
    return kept
