"""One claimed run on its way: what the runner is handed, by the planner or after a restart."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cron.ledger import RunRow
from cron.model import Job
from cron.outcomes import OccurrenceKind, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One claimed run, with the job as it is now. `due` is the nominal instant, `not_before` holds the jitter."""

    job: Job
    job_id: str
    run_id: str
    kind: OccurrenceKind
    due: datetime
    attempt: int = 0  # tries that were begun before, by an earlier daemon
    late: timedelta | None = None  # how late is still useful; None: however late
    not_before: datetime | None = None
    not_after: datetime | None = None  # a first try that cannot begin by then is not made
    wait_for: frozenset[str] = frozenset()  # runs of the job that must have composed first
    cancels: frozenset[str] = frozenset()  # runs of the job that are ended first (`overlap: cancel`)
    is_missed: bool = False  # it was due while nothing ran: a few of those at a time
    deliver: tuple[str, ...] | None = None  # other targets than the job's (a replay)


DIED = {
    RunState.CLAIMED: "The daemon ended before it began, and it was too late when it was started again.",
    RunState.COMPOSING: "The daemon ended while it ran; whether it did its work is not known.",
}


def may_repeat(row: RunRow, job: Job) -> bool:
    """A repeatable job has one more try after a crash than `retry` gives it, at least two in all."""
    return job.repeatable and row.attempt < max(job.retry.attempts, 2)


def left_over(row: RunRow, job: Job) -> Assignment:
    """Return a run that an earlier daemon left open, as it is to be taken up again."""
    return Assignment(
        job=job,
        job_id=row.job_id,
        run_id=row.id,
        kind=row.kind,
        due=row.due,
        attempt=row.attempt,
        deliver=row.deliver,
    )
