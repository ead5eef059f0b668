"""Failures are told, once per incident: the same job with the same cause is told again only after a while.

A notice is a delivery of its own kind: it is never mirrored and never seeded, and one that fails is only logged.
Scheduled runs make the streak that `stop_after` counts; skips, missed occurrences and manual runs leave it as it is.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from cron import jobbook
from cron.jobbook import JobRow
from cron.model import Job
from cron.posting import Posting
from cron.redact import Redactor
from cron.span import Pause
from delivery import outbox
from delivery.dispatcher import Dispatcher
from delivery.model import DeliveryKind
from state.database import Database

log = logging.getLogger(__name__)

_SOON = 0.95  # of `remind_after`: a daily run that is a second early is not a day too early
_VARYING = re.compile(r"0x[0-9a-f]+|run_\w+|dlv_\w+|\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one occurrence ended, as far as a notice is concerned. `cause` None: all is well."""

    job: Job
    job_id: str
    due: datetime
    run_id: str | None
    cause: str | None
    is_in_streak: bool = True  # manual runs and missed occurrences neither break nor make a streak


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What an ending changes of a job's health, and the notice that it is worth."""

    failures: int
    incident: str | None
    told_at: datetime | None
    stops: bool
    notice: str | None


def _judge(row: JobRow, ending: Ending, at: datetime) -> _Verdict | None:
    """Return the verdict; None if nothing changes."""
    failures = row.failures
    if ending.is_in_streak:
        failures = 0 if ending.cause is None else row.failures + 1
    if ending.cause is None:
        if row.incident is None and failures == row.failures:
            return None
        notice = f"**{ending.job.name}** is well again (due {_stamp(ending)})." if row.incident else None
        return _Verdict(failures=failures, incident=None, told_at=None, stops=False, notice=notice)
    incident = _VARYING.sub("#", ending.cause)[:200]
    limit = ending.job.stop_after
    stops = limit is not None and ending.is_in_streak and failures >= limit and row.pause is None
    is_old = row.incident == incident and row.incident_told_at is not None
    is_told = not is_old or stops or at - (row.incident_told_at or at) >= ending.job.remind_after * _SOON
    return _Verdict(
        failures=failures,
        incident=incident,
        told_at=at if is_told else row.incident_told_at,
        stops=stops,
        notice=_failure_text(ending, failures, is_reminder=is_old, stops=stops) if is_told else None,
    )


class Alerts:
    """Keeps each job's streak of failures and tells `on_failure` what a person should know.

    `stopped` is called with the id of a job that `stop_after` has paused.
    """

    def __init__(
        self,
        *,
        db: Database,
        posting: Posting,
        dispatcher: Dispatcher,
        redactor: Callable[[], Redactor],
        stopped: Callable[[str], None],
    ) -> None:
        self._db = db
        self._posting = posting
        self._dispatcher = dispatcher
        self._redactor = redactor
        self._stopped = stopped

    async def ended(self, ending: Ending, at: datetime) -> None:
        """Take note of an ending and tell it if that is due: the streak, a pause and the notice in one transaction."""
        row = await self._db.read(lambda conn: jobbook.job_by_id(conn, ending.job_id))
        likely = None if row is None else _judge(row, ending, at)
        if likely is None:
            return
        news = await self._notice(ending.job, likely.notice)

        def settle(conn: Connection) -> _Verdict | None:
            """Judge again: another run of the job may have ended in between."""
            row = jobbook.job_by_id(conn, ending.job_id)
            verdict = None if row is None else _judge(row, ending, at)
            if verdict is None:
                return None
            jobbook.note_health(
                conn,
                ending.job_id,
                failures=verdict.failures,
                incident=verdict.incident,
                told_at=verdict.told_at,
            )
            if verdict.stops:
                by = f"stop_after, {verdict.failures} failures in a row"
                jobbook.pause(conn, ending.job_id, Pause(since=at, until=None, by=by))
            if verdict.notice is not None:
                outbox.enqueue(conn, news, at=at)
            return verdict

        verdict = await self._db.write(settle)
        if verdict is not None and verdict.stops:
            facts = {"action": "job_stopped", "job": ending.job.name}
            log.warning("A job was paused: it failed too often.", extra=facts)
            self._stopped(ending.job_id)
        if verdict is not None and verdict.notice is not None and news:
            self._dispatcher.wake()
            facts = {"action": "failure_told", "job": ending.job.name, "target": ending.job.on_failure or ""}
            log.info("A failure, or its end, was told.", extra=facts)

    async def _notice(self, job: Job, text: str | None) -> list[outbox.NewDelivery]:
        if text is None or job.on_failure is None:
            return []
        return await self._posting.prepare(
            self._redactor().redact(text), [job.on_failure], kind=DeliveryKind.NOTICE, job=job.name
        )


def _failure_text(ending: Ending, failures: int, *, is_reminder: bool, stops: bool) -> str:
    name = ending.job.name
    what = "still fails" if is_reminder else "failed"
    parts = [f"**{name}** {what} (due {_stamp(ending)}): {ending.cause}"]
    if failures > 1:
        parts.append(f"It is failure number {failures} in a row.")
    if stops:
        parts.append(f"It is paused now; `hermes-cron resume {_quoted(name)}` lets it go on.")
    if ending.run_id:
        parts.append(f"See `hermes-cron show {ending.run_id}`.")
    return " ".join(parts)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"


def _stamp(ending: Ending) -> str:
    return ending.due.isoformat(timespec="minutes")
