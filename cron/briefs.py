"""Briefs that were written before: what a command gets as `previous`, and `context_from` hands to an agent."""

from sqlalchemy import Connection, Select, bindparam, select

from cron.agents.ports import EarlierBrief
from cron.model import Job
from state.schema import jobs, runs

CONTEXT_LIMIT = 8_000  # characters of one earlier brief that are handed on

_NEWEST = (
    select(runs.c.brief, runs.c.started_at, jobs.c.name)
    .join(jobs, jobs.c.id == runs.c.job_id)
    .where(runs.c.brief.is_not(None))
    .order_by(runs.c.started_at.desc(), runs.c.id.desc())
    .limit(1)
)
_NEWEST_BY_ID = _NEWEST.where(runs.c.job_id == bindparam("job"))
_NEWEST_BY_NAME = _NEWEST.where(jobs.c.name == bindparam("job"))


def brief_context(conn: Connection, job: Job, job_id: str) -> tuple[EarlierBrief | None, tuple[EarlierBrief, ...]]:
    """Return this job's newest brief and the newest of every job in `context_from`, silent runs left out."""
    previous = _read(conn, _NEWEST_BY_ID, job_id)
    context = []
    for name in job.context_from:
        brief = previous if name == "self" else _read(conn, _NEWEST_BY_NAME, name)
        if brief is not None:
            context.append(brief)
    return previous, tuple(context)


def _read(conn: Connection, statement: Select[tuple[object, ...]], job: str) -> EarlierBrief | None:
    row = conn.execute(statement, {"job": job}).first()
    if row is None:
        return None
    return EarlierBrief(job=row.name, at=row.started_at, text=row.brief[:CONTEXT_LIMIT])
