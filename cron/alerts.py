"""Failures are told, once per incident: the same job with the same cause is told again only when it recovers.

A notice is a delivery of its own kind: it is never mirrored and never seeded, and one that fails is only logged.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cron import jobbook
from cron.model import Job
from cron.posting import Posting
from cron.redact import Redactor
from delivery import outbox
from delivery.dispatcher import Dispatcher
from delivery.model import DeliveryKind
from state.database import Database

log = logging.getLogger(__name__)

REMIND_AFTER = timedelta(hours=24)
_VARYING = re.compile(r"\d+|0x[0-9a-f]+|run_\w+|dlv_\w+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one occurrence ended, as far as a notice is concerned. `cause` None: all is well."""

    job: Job
    job_id: str
    due: datetime
    run_id: str | None
    cause: str | None
    counts: bool = True  # manual runs neither break nor make a streak


class Alerts:
    """Keeps each job's streak of failures and tells `on_failure` what a person should know."""

    def __init__(
        self, *, db: Database, posting: Posting, dispatcher: Dispatcher, redactor: Callable[[], Redactor]
    ) -> None:
        self._db = db
        self._posting = posting
        self._dispatcher = dispatcher
        self._redactor = redactor

    async def ended(self, ending: Ending, at: datetime) -> None:
        """Take note of an ending and tell it if that is due."""
        row = await self._db.read(lambda conn: jobbook.job_by_id(conn, ending.job_id))
        if row is None:
            return
        incident = None if ending.cause is None else _VARYING.sub("#", ending.cause)[:200]
        failures = (row.failures + ending.counts) if incident is not None else 0
        if incident is None and row.incident is None and row.failures == 0:
            return
        is_old = row.incident == incident and row.incident_told_at is not None
        is_due = not is_old or at - (row.incident_told_at or at) >= REMIND_AFTER
        told_at = at if is_due and incident is not None else row.incident_told_at
        await self._db.write(
            lambda conn: jobbook.note_health(
                conn, ending.job_id, failures=failures, incident=incident, told_at=told_at if incident else None
            )
        )
        if incident is not None and is_due:
            await self._tell(ending.job, _failure_text(ending, failures), at)
        elif incident is None and row.incident is not None:
            await self._tell(ending.job, f"**{ending.job.name}** is well again (due {_stamp(ending)}).", at)

    async def _tell(self, job: Job, text: str, at: datetime) -> None:
        if job.on_failure is None:
            return
        news = await self._posting.prepare(
            self._redactor().redact(text), [job.on_failure], kind=DeliveryKind.NOTICE, job=job.name
        )
        await self._db.write(lambda conn: outbox.enqueue(conn, news, at=at))
        self._dispatcher.wake()
        log.info("A failure was told.", extra={"action": "failure_told", "job": job.name, "target": job.on_failure})


def _failure_text(ending: Ending, failures: int) -> str:
    streak = f" It is failure number {failures} in a row." if failures > 1 else ""
    more = f" See `hermes-cron show {ending.run_id}`." if ending.run_id else ""
    return f"**{ending.job.name}** failed (due {_stamp(ending)}): {ending.cause}{streak}{more}"


def _stamp(ending: Ending) -> str:
    return ending.due.isoformat(timespec="minutes")
