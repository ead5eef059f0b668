"""What seeding asks of others. The docstrings are contracts."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from delivery.model import Address, DeliveryId, Inbound, InboundId, Receipt
from seeding.model import ChatRules, Question

T = TypeVar("T")


class Store(Protocol):
    """The part of `state.database.Database` that seeding needs; the contract is the one given there."""

    async def write(self, fn: Callable[[Connection], T]) -> T:
        """Run fn in the writer; return its value when it is durable."""

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Run fn in a read transaction of its own."""


class AnswerFailed(Exception):
    """The agent could not answer. `reason` is one sentence without secrets, fit to be shown to the person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Answerer(Protocol):
    """Who answers people: finds the job's agent and asks it."""

    async def answer(self, question: Question) -> str:
        """Return the answer in Markdown, secrets redacted. Raises AnswerFailed; may be called again after a crash."""


class Rulebook(Protocol):
    """What jobs.yaml says of chats; changes when the file is reloaded."""

    def for_chat(self, address: Address) -> ChatRules:
        """Return the rules of the chat (and topic) of this address; defaults where no target names it.

        Called from the database's threads as well: it only reads.
        """


class Commands(Protocol):
    """`/cron ...` typed in a chat."""

    async def run(self, words: str, inbound: Inbound) -> str:
        """Carry out one command (without the leading `/cron`) and return the reply in Markdown. Never raises."""


class Outbox(Protocol):
    """Where replies go: deliveries like any other. Both run inside the caller's transaction and are idempotent:

    one delivery per inbound, so whatever comes second changes nothing. `address` is the place to post to.
    """

    def enqueue_answer(
        self,
        conn: Connection,
        *,
        inbound_id: InboundId,
        session_id: str,
        job: str | None,
        address: Address,
        text: str,
        at: datetime,
    ) -> None:
        """Render an answer and store it to be sent; its turn is stored and its keys bound when it has arrived."""

    def enqueue_notice(
        self, conn: Connection, *, inbound_id: InboundId, address: Address, text: str, at: datetime
    ) -> None:
        """Render a reply that belongs to no conversation and store it to be sent."""

    def wake(self) -> None:
        """Say that something was enqueued and committed. From the event loop."""


class ConfirmByAnswer(Protocol):
    """Takes a person's answer as the receipt of a part that was in doubt."""

    def __call__(self, conn: Connection, delivery_id: DeliveryId, n: int, receipt: Receipt, *, at: datetime) -> object:
        """Store the receipt and settle the delivery, in the caller's transaction. Idempotent."""
