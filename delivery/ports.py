"""What delivery asks of others. The docstrings are contracts: guarantees, errors, what a second call does."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from sqlalchemy import Connection

from delivery.model import (
    Address,
    ChatKind,
    DeliveryId,
    FindResult,
    Inbound,
    OutgoingPart,
    PartKind,
    Receipt,
    SendResult,
)
from delivery.render.parts import RenderedPart
from delivery.targets import Target

Hear = Callable[[Inbound], Awaitable[None]]
"""Returns once the message is durable (committed); only then may a platform acknowledge it.

Raises when it could not be stored: then it must not be acknowledged, so that the platform sends it again.
"""


class AccountDown(Exception):
    """The account cannot be used now. `reason` is a sentence without secrets; it is tried again with growing waits."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TargetUnresolved(Exception):
    """No such place, or several. `reason` is a sentence with the candidates; `final` False means: ask again later."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final


class PartRefused(Exception):
    """A post that is a row of our own database cannot be made, for good. `reason` is a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SettlementFailed(Exception):
    """A seed (or a turn) could not be written. Says which, so that the warning can name it."""

    def __init__(self, reason: str, *, surface: str | None = None, session: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.surface = surface
        self.session = session


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One place that an account can reach, for the channel directory."""

    chat: str
    name: str
    kind: ChatKind
    topic: str = ""
    members: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How this platform opens a thread at an address: part 0 of a delivery on the thread surface."""

    kind: PartKind  # HEADER or TOPIC
    payload: Mapping[str, object]
    text: str


class Platform(Protocol):
    """One account on one platform. Every method may be called from several tasks at once.

    Nothing here retries: one call, one attempt, mapped at the socket's phase (before connect: NotSent; while
    writing or after: InDoubt; a clear answer: Sent, Rejected or Throttled). SDK retries are off.
    """

    @property
    def account(self) -> str:
        """The account's name in jobs.yaml."""

    @property
    def kind(self) -> str:
        """`slack`, `telegram` or `local`."""

    @property
    def workspace(self) -> str | None:
        """The account's own id; None until `connect` has succeeded once (the wiring may preset the stored one)."""

    async def connect(self) -> str:
        """Check the login and return the workspace. Raises AccountDown. Calling it again is harmless."""

    async def listen(self, hear: Hear) -> None:
        """Hear messages until cancelled. Raises AccountDown when the login is refused; reconnects by itself otherwise.

        Our own messages never reach `hear`; other bots do, with `is_bot` set. On cancellation nothing that was
        acknowledged is lost. A second concurrent call is an error.
        """

    async def catch_up(self, address: Address, since: datetime, hear: Hear) -> None:
        """Read what people wrote at an address (its thread, if `root` is set) after `since`, oldest first.

        What was edited after `since` comes as an edit. Platforms that keep updates by themselves do nothing. Within
        the platform's rate, which may take an hour; may be cancelled at any time. Raises nothing but AccountDown;
        what cannot be read is logged.
        """

    async def chats(self) -> Sequence[Chat]:
        """List what the account can reach (for the directory). Raises AccountDown."""

    async def resolve(self, target: Target) -> Address:
        """Name the place of a target. Raises TargetUnresolved, AccountDown."""

    def render(self, markdown: str) -> tuple[RenderedPart, ...]:
        """Format and split a brief; pure. Empty text gives no parts."""

    def opening(self, address: Address, title: str) -> Opening | None:
        """How a thread is opened there, or None where there are no threads (the quoted message is the thread)."""

    async def send(self, part: OutgoingPart) -> SendResult:
        """Post one part. Never raises; on cancellation the part counts as in doubt."""

    async def find(self, part: OutgoingPart) -> FindResult:
        """Look for a part whose send is in doubt. Never raises. CannotTell where the platform cannot be asked."""

    def working(self, address: Address) -> AbstractAsyncContextManager[None]:
        """Show that an answer is being written, for as long as the context is open. Never raises."""

    async def retract(self, receipt: Receipt) -> bool:
        """Delete a message of ours. True if it is gone."""

    async def close(self) -> None:
        """Close every socket. Idempotent."""


@runtime_checkable
class PostsInTransaction(Protocol):
    """A platform whose posts are rows of our own database: intent, message and receipt are one transaction."""

    def post(self, conn: Connection, part: OutgoingPart, *, job: str | None, at: datetime) -> Receipt:
        """Write the message and return its receipt. Runs inside the outbox's transaction. Raises PartRefused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A delivery of which no part can still change (or one part was proven later), as stored."""

    delivery_id: DeliveryId
    at: datetime


class Settlement(Protocol):
    """What is written when a delivery has settled. Implemented by seeding; delivery does not know how."""

    def settled(self, conn: Connection, settled: Settled) -> None:
        """Seed a brief, store an answer's turn, mirror a send: in the transaction of the last receipt.

        Called when no part is pending or sending and at least one is confirmed, and again whenever a part is
        confirmed later. Idempotent. The caller has opened a savepoint: an exception undoes what this wrote,
        leaves the receipt, is logged at WARNING with delivery, surface and session, and is tried again later.
        """


@runtime_checkable
class FollowsMoves(Protocol):
    """A settlement that keeps what hangs on a chat's id: flat keys and sessions."""

    def chat_moved(
        self, conn: Connection, account: str, old: str, new: str, *, at: datetime, keeps_messages: bool = False
    ) -> None:
        """Move the flat key and the sessions of a chat to its new id, in the transaction that moves the deliveries.

        Thread keys stay under the old id, where message ids start anew, unless `keeps_messages`. Idempotent.
        """
