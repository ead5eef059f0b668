"""Bring the database's memory of jobs in line with a jobs.yaml that was just read: one transaction, one diff.

Unchanged schedules keep their anchor and cursor; changed ones are begun anew, without firing; what lies between
the cursor and now is accounted by the rules of its time. Pauses and streaks survive every edit.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from sqlalchemy import Connection

from cron import jobbook, ledger
from cron.definitions import definition_of, fingerprint_of, policy_of, schedule_of
from cron.jobbook import JobRow
from cron.model import CatchUp, Job
from cron.outcomes import Outcome
from cron.schedule import ScheduleError
from cron.span import plan_span

log = logging.getLogger(__name__)

ZONE_CHANGED = "zone changed"
MANY = 50  # so many jobs with the same change share a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of a diff: what became of one job."""

    job: str
    what: str


def apply_jobs(conn: Connection, jobs: Mapping[str, Job], at: datetime) -> tuple[Change, ...]:
    """Store the jobs of the file; returns what changed, in the file's order, removed jobs last."""
    by_name = {row.name: row for row in jobbook.all_jobs(conn)}
    ids = {row.id for row in by_name.values()}
    matched: set[str] = set()
    changes: list[Change] = []
    for job in jobs.values():
        row = _row_of(job, jobs, by_name)
        if row is not None:
            matched.add(row.id)
            holder = by_name.get(job.name)
            if holder is not None and holder.id != row.id:
                jobbook.free_name(conn, holder)
        what = _disable(conn, row, at) if not job.enabled else _enable(conn, job, row, ids, at)
        if what is not None:
            changes.append(Change(job=job.name, what=what))
    for row in by_name.values():
        if row.id not in matched and not row.is_removed:
            _account(conn, row, at)
            jobbook.remove(conn, row.id, at)
            changes.append(Change(job=row.name, what="removed"))
    return tuple(changes)


def know_jobs(conn: Connection, jobs: Mapping[str, Job], at: datetime) -> None:
    """Give new jobs a row that no daemon has begun yet, so that a run can be claimed without one."""
    by_name = {row.name: row for row in jobbook.all_jobs(conn)}
    ids = {row.id for row in by_name.values()}
    for job in jobs.values():
        if _row_of(job, jobs, by_name) is None:
            definition = definition_of(job)
            fingerprint = fingerprint_of(definition)
            job_id = _free_id(job, ids, at)
            jobbook.add_job(conn, job_id=job_id, name=job.name, fingerprint=fingerprint, definition=definition, at=at)
            jobbook.remove(conn, job_id, at)


def _free_id(job: Job, ids: Collection[str], at: datetime) -> str:
    return job.name if job.name not in ids else f"{job.name} ({at:%Y-%m-%dT%H:%M:%S})"


def _row_of(job: Job, jobs: Mapping[str, Job], by_name: Mapping[str, JobRow]) -> JobRow | None:
    """Find a job's row by its name, else by the name that it had before, if nobody has that name now.

    A job of that name that was removed once is another one, as long as the earlier name is still alive.
    """
    row = by_name.get(job.name)
    earlier = by_name.get(job.was) if job.was is not None and job.was not in jobs else None
    if earlier is not None and (row is None or (row.is_removed and not earlier.is_removed)):
        return earlier
    return row


def _disable(conn: Connection, row: JobRow | None, at: datetime) -> str | None:
    if row is None or row.is_removed:
        return None
    _account(conn, row, at)
    jobbook.remove(conn, row.id, at)
    return "disabled"


def _enable(conn: Connection, job: Job, row: JobRow | None, ids: Collection[str], at: datetime) -> str | None:
    definition = definition_of(job)
    fingerprint = fingerprint_of(definition)
    if row is None:
        job_id = _free_id(job, ids, at)
        jobbook.add_job(conn, job_id=job_id, name=job.name, fingerprint=fingerprint, definition=definition, at=at)
        return "added"
    if row.is_removed or row.fingerprint != fingerprint:
        if not row.is_removed:
            _account(conn, row, at)
        jobbook.reanchor(conn, row, name=job.name, fingerprint=fingerprint, definition=definition, at=at)
        return "added again" if row.is_removed else _what_changed(row.definition, definition)
    jobbook.keep(conn, row.id, name=job.name, definition=definition, at=at)
    return f"renamed from {row.name}" if row.name != job.name else None


def _what_changed(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    rest = ("schedules", "start", "end", "day_sources")
    if all(old.get(key) == new[key] for key in rest):
        return f"{ZONE_CHANGED} from {old['timezone']} to {new['timezone']}, begun anew"
    return "schedule changed, begun anew"


def _account(conn: Connection, row: JobRow, at: datetime) -> None:
    """Cover what the old schedule named up to now, without running any of it."""
    try:
        schedule = schedule_of(row.definition, row.anchor)
    except (ScheduleError, KeyError, ValueError):
        log.exception("A stored schedule cannot be read.", extra={"action": "schedule_unreadable", "job": row.name})
        return
    policy = replace(policy_of(row.definition, schedule, at), catch_up=CatchUp.NONE)
    is_behind = row.ahead_until is not None and row.cursor < row.ahead_until
    known = ledger.dues_after(conn, row.id, row.cursor) if is_behind else ()
    plan = plan_span(schedule, policy, cursor=row.cursor, now=at, missed_until=at, pause=row.pause, known=known)
    told = [
        replace(one, error="The job was changed before it ran.") if one.outcome is Outcome.SKIPPED_LATE else one
        for one in plan.rows
    ]
    if jobbook.advance(conn, row, plan.cursor):
        ledger.write_rows(conn, row.id, told, at)


def told(changes: Sequence[Change]) -> Iterator[str]:
    """Say what changed, a line for each job; one for all of them where a zone changed, or where they are many."""
    for what, group in groupby(sorted(changes, key=lambda change: change.what), key=lambda change: change.what):
        names = [change.job for change in group]
        if what.startswith(ZONE_CHANGED) or len(names) > MANY:
            yield f"{len(names)} jobs: {what}"
        else:
            yield from (f"{name}: {what}" for name in names)
