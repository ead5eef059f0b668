"""What an agent is: who writes a brief, and who answers a person. The docstrings are contracts."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Protocol

from cron.model import Job
from seeding.model import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBrief:
    """A brief that was written before: this job's newest, or another job's (`context_from`)."""

    job: str
    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefRequest:
    """What an agent is told when it shall write a brief. `due` is the nominal instant, in the job's zone."""

    job: Job
    due: datetime
    run_id: str
    attempt: int = 1
    previous: EarlierBrief | None = None
    context: tuple[EarlierBrief, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """What an agent wrote. `is_silent`: the agent itself said that there is nothing to post."""

    text: str
    is_silent: bool = False
    details: Mapping[str, object] = field(default_factory=dict)  # exit code, token counts


class ComposeFailed(Exception):
    """No brief came out. `reason` is one sentence; `is_transient` False: trying again is pointless.

    `is_known` False: it may still be at work, or have done what it does.
    """

    def __init__(
        self,
        reason: str,
        *,
        is_transient: bool,
        details: Mapping[str, object] | None = None,
        is_known: bool = True,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_transient = is_transient
        self.is_known = is_known
        self.details = details or {}


Started = Callable[[int, int], Awaitable[None]]
"""Is told the process group and its leader's start ticks, before the process is given its input."""


class Agent(Protocol):
    """One configured agent. Both calls may run at the same time as others; cancelling one ends all that it started."""

    async def compose(self, request: BriefRequest, started: Started) -> Composed:
        """Write a brief. Raises ComposeFailed. Time limits are the caller's: it cancels."""

    async def answer(self, question: Question, zone: tzinfo) -> str:
        """Answer the last turn of the transcript, in Markdown; instants are told in `zone`.

        Raises seeding.ports.AnswerFailed.
        """
