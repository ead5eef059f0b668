"""The words of delivery: values without behaviour, shared by every platform and by `seeding`.

All datetimes are aware and in UTC. All ids are text exactly as the platform wrote them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

DeliveryId = NewType("DeliveryId", str)
InboundId = NewType("InboundId", int)


class Surface(StrEnum):
    """How a brief is posted."""

    FLAT = "flat"
    THREAD = "thread"


class ChatKind(StrEnum):
    """What kind of chat an address names. A Slack group DM is a `group`; the local page has `channel`s."""

    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    FORUM = "forum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a message is (or shall be), as the platform names it.

    `workspace` is the account's own id, learnt when it connects (Slack: `auth.test`'s team, or the
    enterprise of an org-wide install; Telegram: the bot's id; local: "local").
    `topic` is a Telegram forum topic; General is None.
    `message` is the message itself: None for a place that nothing was posted to yet.
    `root` is the message that this one answers (Slack: `thread_ts`, only if it is not the message's own
    ts; Telegram: the message replied to). For a place to post to: the thread to post into.
    """

    account: str
    workspace: str
    chat: str
    chat_kind: ChatKind
    topic: str | None = None
    message: str | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The platform's proof of where one part really landed: built from its response, never from our request."""

    address: Address  # `message` is set and not empty
    at: datetime
    raw: Mapping[str, object] = field(default_factory=dict)  # the response, without texts and secrets


class PartKind(StrEnum):
    """What one part is. HEADER and TOPIC are part 0 of a delivery on the thread surface."""

    HEADER = "header"  # the message that opens a thread (Slack, local)
    TOPIC = "topic"  # a forum topic opened for the run (Telegram)
    TEXT = "text"


class PartState(StrEnum):
    """How far one part is. What a restart does with each state that is not final:

    pending: send it. sending: ask the platform (`find`), see in_doubt. in_doubt: being asked, then held
    for a person; never sent again by itself. held: surely not sent, waiting (an account that is down).
    """

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    REJECTED = "rejected"
    IN_DOUBT = "in_doubt"
    HELD = "held"


class DeliveryState(StrEnum):
    """The state of a delivery, as `runs --json` prints it."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    DEGRADED = "degraded"  # arrived, but not as asked: see `error`
    IN_DOUBT = "in_doubt"  # may have arrived: being asked, or waiting for a person
    FAILED = "failed"
    HELD = "held"  # surely not sent, waiting


class DeliveryKind(StrEnum):
    """Why something is sent; decides what is written when it has settled (see `ports.Settlement`)."""

    BRIEF = "brief"  # a run's brief: seeded
    ANSWER = "answer"  # an answer to a person: its turn is stored, its keys bound
    SEND = "send"  # `hermes-cron send`: mirrored as the agent speaking
    NOTICE = "notice"  # failure notices and chat-command replies: stored nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPart:
    """One part as a platform is asked to send it, or to find it again.

    `address` is the place (chat, topic, root to post into; no message). `payload` is what the platform's
    own `render` or `opening` made. `marker` is one opaque id, unique to the part, that may be shown to the
    platform as metadata. `intent_at` is when the intent was stored.
    """

    delivery_id: DeliveryId
    n: int
    kind: PartKind
    address: Address
    payload: Mapping[str, object]
    marker: str
    intent_at: datetime


# --- how one send ended: cut by what the caller may do next -------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The platform confirmed it and gave a message id."""

    receipt: Receipt
    degraded: str | None = None  # arrived, but not as asked: one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The platform refused it for good; sending the same again is pointless."""

    reason: str
    chat_is_gone: bool = False  # blocked, kicked, archived: later deliveries to this chat would fail too
    moved_to: str | None = None  # the chat has a new id (Telegram: group became a supergroup)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    """Refused for now; nothing was posted. No call of any kind to this chat before `retry_after` seconds."""

    retry_after: float
    whole_account: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSent:
    """Surely not posted (never connected, refused before the body was written): safe to send again."""

    reason: str
    account_is_down: bool = False  # e.g. a bad token: hold, do not count as a try


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """May have been posted (anything after the first byte of the body): never sent again by itself."""

    reason: str


SendResult = Sent | Rejected | Throttled | NotSent | InDoubt


# --- what `find` may answer about a part whose send is in doubt ---------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The platform was asked, the whole window was read, and the part is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotTell:
    """The platform cannot be asked, or the window was not fully read."""

    reason: str


FindResult = Receipt | Absent | CannotTell


# --- what a person wrote ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who wrote a message. `id` is the platform's user id, or the chat that `sender_chat` names."""

    id: str
    name: str
    is_bot: bool = False  # another bot; our own messages never become an Inbound


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """A message that a person wrote, as a platform heard it.

    `address.message` is its id, `address.root` the message that it explicitly answers, `address.topic` its
    topic. `thread` is the thread it lies in where that is another message than `root` (Telegram: the root of
    a reply thread in a supergroup without topics). `quoted` are messages of the same chat that it quotes from
    elsewhere (permalinks, shares, external replies). `text` is what they typed, the mention of our bot
    stripped. `is_edit` marks a new text for a message that was heard before. `copied_root`: the (chat, message)
    of which the platform itself made the message that is answered, or that opened its thread (Telegram: a
    channel's post, forwarded into the linked group); never a forward that a person made. `answered_at`: when the
    message `root` was posted, by the platform's word, if that is one of our bot's; `answered_text`: how it begins,
    where the platform tells.
    """

    address: Address
    author: Author
    text: str
    at: datetime
    mentioned: bool = False
    is_edit: bool = False
    thread: str | None = None
    quoted: tuple[str, ...] = ()
    answers_us: bool = False  # it answers or quotes a message of our own bot
    copied_root: tuple[str, str] | None = None
    answered_at: datetime | None = None
    answered_text: str | None = None
    addressee: Mapping[str, object] = field(default_factory=dict)  # raw hints the platform needs to answer
