"""What seeding asks of others. The docstrings are contracts."""

from typing import Protocol

from delivery.model import Address, Inbound
from seeding.model import ChatRules, Question


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
        """Return the rules of the chat (and topic) of this address; defaults where no target names it."""


class Commands(Protocol):
    """`/cron ...` typed in a chat."""

    async def run(self, words: str, inbound: Inbound) -> str:
        """Carry out one command (without the leading `/cron`) and return the reply in Markdown. Never raises."""
