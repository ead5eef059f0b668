"""The words of seeding: sessions, turns, questions, rules. All datetimes are aware and in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from delivery.model import Address, ChatKind, InboundId, PartKind

SessionId = NewType("SessionId", str)
SessionKey = NewType("SessionKey", str)
"""The name of a spot where answers land. Only `seeding.keys` spells one."""


class Listen(StrEnum):
    """Whether a plain message in a channel or group wakes the agent."""

    MENTIONS = "mentions"
    ALL = "all"


class SessionScope(StrEnum):
    """Whether everyone in a chat shares its flat session, or each person has their own."""

    SHARED = "shared"
    PER_USER = "per_user"


class Role(StrEnum):
    """Who a turn counts as, for the model."""

    USER = "user"
    ASSISTANT = "assistant"


class Origin(StrEnum):
    """Where a stored turn came from."""

    CRON = "cron"  # the mirror of a delivered brief
    INBOUND = "inbound"  # a person wrote it
    ANSWER = "answer"  # the agent's answer
    SEND = "send"  # `hermes-cron send`


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRules:
    """What jobs.yaml says of one chat.

    `allow` None: whoever writes in a chat that a job delivers to is heard; a set: those people only,
    wherever they write to the account; `everyone` True: explicitly everybody. `has_threads`: a message that
    answers another lies in that one's thread, a place of its own (Slack, local); False where it merely quotes it
    (Telegram). `expire_after`: how long nobody may have spoken before the flat session starts over; None: never.
    """

    listen: Listen = Listen.MENTIONS
    sessions: SessionScope = SessionScope.SHARED
    allow: frozenset[str] | None = None
    everyone: bool = False
    is_delivered_to: bool = False  # an enabled job names this chat
    is_own_page: bool = False  # the built-in page: its people are the daemon's own
    has_threads: bool = True
    expire_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """One confirmed part: what it is, and the address on its receipt."""

    kind: PartKind
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation, as stored. `root` and `job` None: the flat conversation of its chat (or topic)."""

    id: SessionId
    account: str
    workspace: str
    chat: str
    chat_kind: ChatKind
    topic: str | None
    root: str | None  # the message that it hangs under
    user: str | None
    job: str | None  # the job whose brief opened it
    display_name: str
    expiry_finalized: bool
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None

    @property
    def is_own_place(self) -> bool:
        """Whether it is a thread's (or an opened topic's) conversation, not the chat's flat one."""
        return self.root is not None or self.job is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One contribution to a session, as stored."""

    role: Role
    text: str
    at: datetime
    origin: Origin
    author: str | None = None
    job: str | None = None
    delivery_id: str | None = None
    is_unconfirmed: bool = False  # an answer, or a brief, that perhaps did not arrive


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What an agent is asked: the stored turns of the session, oldest first, the question last."""

    inbound_id: InboundId
    session_id: SessionId
    job: str | None  # the job of the brief that is being answered; None in a conversation of no job
    text: str
    author: str
    address: Address
    transcript: tuple[Turn, ...]
    briefs: frozenset[str] = frozenset()  # deliveries that it answers: never trimmed out of the transcript
    attempt: int = 1
    details: Mapping[str, object] = field(default_factory=dict)
