"""An older copy of the database was put back: what happened since is not known, so nothing of it is done again.

Occurrences up to the last instant before become `unknown`, runs that were open then too; what was waiting to be
sent is in doubt, and questions that nobody had begun to answer are given up. All of it is one transaction.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, delete

from cron import jobbook, ledger
from cron.agents.process import end_stale_group
from cron.alerts import Alerts, Ending
from cron.deciding import Planned
from cron.definitions import policy_of, schedule_of
from cron.jobbook import JobRow
from cron.ledger import RunRow
from cron.model import CatchUp, JobId
from cron.outcomes import Outcome, RunState
from cron.schedule import ScheduleError
from cron.span import PlannedRow, plan_span
from delivery import doubts
from seeding import answering
from state.books import REWOUND
from state.clock import Now, Sleep
from state.database import Database
from state.schema import meta

log = logging.getLogger(__name__)

WHY = "An older copy of the database was put back; whether it ran is not known."
_SKIPPED = (Outcome.SKIPPED_LATE, Outcome.COALESCED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What is unknown of one job: the newest instant, how many occurrences, and the run if there was one."""

    job_id: JobId
    job: str
    due: datetime
    count: int
    run_id: str | None = None


async def settle_if_rewound(db: Database, *, now: Now, sleep: Sleep) -> Sequence[Unknown]:
    """Do nothing unless an older copy was put back. Before jobs are applied and before anything is sent."""
    until = db.rewound_until
    if until is None:
        return ()
    for run in await db.read(_open_groups):
        await end_stale_group(run.process_group or 0, run.leader_ticks or 0, run.id, sleep)
    return await db.write(partial(settle_rewind, until=until, at=now()))


async def tell_unknown(
    unknown: Sequence[Unknown], planned: Mapping[JobId, Planned], alerts: Alerts, *, at: datetime
) -> None:
    """Tell `on_failure` of the jobs that are still in the file."""
    for one in unknown:
        if one.job_id in planned:
            ending = Ending(
                job=planned[one.job_id].job,
                job_id=one.job_id,
                due=one.due,
                run_id=one.run_id,
                cause=f"{one.count} unknown, the last of them due then: an older copy of the database was put back",
            )
            await alerts.ended(ending, at)


def settle_rewind(conn: Connection, until: datetime, *, at: datetime) -> tuple[Unknown, ...]:
    """Account for what happened, or did not, up to `until`; what stood in `meta` about it is gone afterwards."""
    found = [*_close_runs(conn, at), *_cover_all(conn, until, at)]
    doubtful = doubts.doubt_all(conn, "an older copy of the database was put back; it may have been sent", at=at)
    given_up = answering.give_up_waiting(conn, "an older copy of the database was put back", at=at)
    conn.execute(delete(meta).where(meta.c.key == REWOUND))
    log.warning(
        "What happened since the older copy was made counts as unknown.",
        extra={
            "action": "rewind_settled",
            "until": until.isoformat(),
            "occurrences": sum(one.count for one in found),
            "deliveries": doubtful,
            "questions": given_up,
        },
    )
    return tuple(found)


def _open_groups(conn: Connection) -> list[RunRow]:
    """Return the runs whose processes may still be there."""
    return [run for run in ledger.open_runs(conn) if run.process_group is not None]


def _close_runs(conn: Connection, at: datetime) -> Iterable[Unknown]:
    for run in ledger.open_runs(conn):
        if run.state is RunState.COMPOSED:
            continue  # its brief is known; whether it arrived is what its deliveries say
        ledger.close(conn, run.id, Outcome.UNKNOWN, error=WHY, at=at)
        yield Unknown(job_id=JobId(run.job_id), job=run.job_name, due=run.due, count=1, run_id=run.id)


def _cover_all(conn: Connection, until: datetime, at: datetime) -> Iterable[Unknown]:
    for row in jobbook.all_jobs(conn):
        if row.is_removed or row.cursor >= until:
            continue
        rows = [_as_unknown(one) for one in _rows(row, until)]
        if jobbook.advance(conn, row, until):
            ledger.write_rows(conn, row.id, rows, at)
        lost = [one for one in rows if one.outcome is Outcome.UNKNOWN]
        if lost:
            newest = lost[-1].until or lost[-1].due
            yield Unknown(job_id=row.id, job=row.name, due=newest, count=sum(one.count for one in lost))


def _rows(row: JobRow, until: datetime) -> Iterable[PlannedRow]:
    try:
        schedule = schedule_of(row.definition, row.anchor)
    except (ScheduleError, KeyError, ValueError):
        log.exception("A stored schedule cannot be read.", extra={"action": "schedule_unreadable", "job": row.name})
        return ()
    policy = replace(policy_of(row.definition, schedule, until), catch_up=CatchUp.NONE)
    plan = plan_span(schedule, policy, cursor=row.cursor, now=until, missed_until=until, pause=row.pause)
    return plan.rows


def _as_unknown(row: PlannedRow) -> PlannedRow:
    """Days off and pauses are what they were; whatever could have run may have run."""
    return replace(row, outcome=Outcome.UNKNOWN, error=WHY) if row.outcome in _SKIPPED else row
