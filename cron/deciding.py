"""What is done about one job in a pass: the decision, what is written of it, and the runs that come of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from cron import jobbook, ledger
from cron.assignments import Assignment
from cron.definitions import definition_of, policy_of
from cron.jobbook import JobRow
from cron.ledger import RunRow
from cron.model import CatchUp, Job, Overlap
from cron.outcomes import OccurrenceKind, Outcome
from cron.schedule import Schedule, jitter_for
from cron.span import Plan, PlannedRow, plan_span

PREPARED = 2  # instants that the engine holds of each job


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One job that is planned: as the file says, as the database remembers, and its series."""

    job: Job
    row: JobRow
    schedule: Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What becomes of a job's span (None: nothing lies in it), and the instants that it waits for next."""

    plan: Plan | None
    upcoming: Sequence[datetime]
    late: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What was written of a plan: runs that were claimed, rows of what is not run, and runs that were in the way."""

    runs: tuple[tuple[datetime, str], ...]
    rows: tuple[PlannedRow, ...]
    in_the_way: tuple[RunRow, ...]


def decide(
    one: Planned,
    known: frozenset[datetime],
    now: datetime,
    *,
    missed_until: datetime,
    leapt_until: datetime | None,
) -> Decided:
    """Decide about one job, and prepare its next instants. Pure."""
    # Days off wake us too: they have rows of their own.
    every = one.schedule.without_exclusions()
    following = every.next_after(one.row.cursor)
    if following is None or following > now:  # nothing lies in between: most jobs, most of the time
        upcoming = [] if following is None else [following]
        return Decided(plan=None, upcoming=upcoming, late=timedelta(0))
    policy = policy_of(definition_of(one.job), one.schedule, now)
    has_leapt = leapt_until is not None and one.row.cursor < leapt_until
    if has_leapt and policy.catch_up is CatchUp.ALL:
        policy = replace(policy, catch_up=CatchUp.LATEST)
    plan = plan_span(
        one.schedule,
        replace(policy, late=policy.late + one.job.jitter),
        cursor=one.row.cursor,
        now=now,
        missed_until=missed_until,
        pause=one.row.pause,
        known=known,
        at_most_one=has_leapt,
    )
    following = every.next_after(plan.cursor)
    upcoming = []
    while following is not None and len(upcoming) < PREPARED:
        upcoming.append(following)
        following = every.next_after(following)
    return Decided(plan=plan, upcoming=upcoming, late=policy.late)


def write_plan(conn: Connection, one: Planned, plan: Plan, *, incarnation: str, at: datetime) -> Claims | None:
    """Advance, rows and claims in one transaction; None if somebody advanced before."""
    if not jobbook.advance(conn, one.row, plan.cursor):
        return None
    busy = ledger.composing_runs(conn, one.row.id) if plan.due else []
    rows = list(plan.rows)
    runs: list[tuple[datetime, str]] = []
    definition = definition_of(one.job)
    for due in plan.due:
        if busy and one.job.overlap is Overlap.SKIP:
            rows.append(_overlap_row(due, busy[-1], at))
            continue
        run_id = ledger.claim(
            conn,
            job_id=one.row.id,
            kind=OccurrenceKind.SCHEDULED,
            due=due,
            incarnation=incarnation,
            definition=definition,
            at=at,
        )
        if run_id is not None:
            runs.append((due, run_id))
    ledger.write_rows(conn, one.row.id, rows, at)
    return Claims(runs=tuple(runs), rows=tuple(rows), in_the_way=tuple(busy))


def assignments_of(
    one: Planned, claims: Claims, *, late: timedelta, missed_until: datetime, at: datetime
) -> list[Assignment]:
    """Return the claimed runs as the runner takes them: when each may begin, and what it waits for."""
    before = [run.id for run in claims.in_the_way]
    made = []
    for due, run_id in claims.runs:
        # Several at once are a backlog: they run one after the other, whatever `overlap` says, unless it allows.
        queues = one.job.overlap is Overlap.QUEUE or (len(claims.runs) > 1 and one.job.overlap is not Overlap.ALLOW)
        begins = due + jitter_for(one.row.id, due, one.job.jitter)
        is_missed = due <= missed_until
        made.append(
            Assignment(
                job=one.job,
                job_id=one.row.id,
                run_id=run_id,
                kind=OccurrenceKind.SCHEDULED,
                due=due,
                not_before=begins if begins > at else None,
                late=late,
                not_after=None if is_missed else begins + late,
                wait_for=frozenset(before) if queues else frozenset(),
                cancels=frozenset(before) if one.job.overlap is Overlap.CANCEL and not queues else frozenset(),
                is_missed=is_missed,
            )
        )
        before.append(run_id)
    return made


def _overlap_row(due: datetime, busy: RunRow, at: datetime) -> PlannedRow:
    return PlannedRow(
        due=due,
        outcome=Outcome.SKIPPED_OVERLAP,
        error=f"Run {busy.id}, due {busy.due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}, was still composing.",
        late_s=max(timedelta(0), at - due).total_seconds(),
    )
