"""The ledger: one row per occurrence (or per stretch of occurrences that were not run), one run per row that ran.

Functions on a connection, for `db.write` and `db.read`. Once-only is the UNIQUE key (job, kind, due, n): a
second claim of the same occurrence finds the first and does nothing. An outcome is set once and never again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from sqlalchemy import Connection, Row, bindparam, func, select

from cron.outcomes import OccurrenceKind, Outcome, RunState
from cron.span import PlannedRow
from delivery.model import DeliveryState
from state.schema import deliveries, incarnations, jobs, occurrences, runs

ENDED = (DeliveryState.SENT, DeliveryState.DEGRADED, DeliveryState.FAILED, DeliveryState.IN_DOUBT, DeliveryState.HELD)


_TOLD = [str(state) for state in (DeliveryState.FAILED, DeliveryState.IN_DOUBT, DeliveryState.HELD)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run with its occurrence, as stored."""

    id: str
    job_id: str
    job_name: str
    kind: OccurrenceKind
    due: datetime
    state: RunState
    incarnation: str
    attempt: int
    process_group: int | None
    leader_ticks: int | None


_NEW = occurrences.insert().prefix_with("OR IGNORE", dialect="sqlite")
_OPEN = (
    select(runs, occurrences.c.kind, occurrences.c.due, jobs.c.name.label("job_name"))
    .join(occurrences, occurrences.c.id == runs.c.occurrence_id)
    .join(jobs, jobs.c.id == runs.c.job_id)
)
_COMPOSING = _OPEN.where(
    runs.c.job_id == bindparam("job_id"), runs.c.state.in_([RunState.CLAIMED, RunState.COMPOSING])
).order_by(occurrences.c.due)
_UNENDED = select(func.count()).where(
    deliveries.c.run_id == bindparam("run_id"), deliveries.c.state.not_in([str(state) for state in ENDED])
)
_PATCH_RUN = runs.update().where(runs.c.id == bindparam("run_id"))
_END = (
    occurrences.update()
    .where(
        occurrences.c.id == select(runs.c.occurrence_id).where(runs.c.id == bindparam("run_id")).scalar_subquery(),
        occurrences.c.outcome.is_(None),
    )
    .values(outcome=bindparam("new_outcome"), error=bindparam("new_error"))
)


def begin_incarnation(conn: Connection, *, incarnation: str, pid: int, at: datetime) -> None:
    """Write down who holds the home's lock from now on; every claim of another incarnation is dead."""
    conn.execute(incarnations.insert().values(id=incarnation, pid=pid, started_at=at))


def end_incarnation(conn: Connection, incarnation: str, at: datetime) -> None:
    """Note that this incarnation ended in order."""
    conn.execute(incarnations.update().where(incarnations.c.id == incarnation).values(ended_at=at))


def write_rows(conn: Connection, job_id: str, rows: Iterable[PlannedRow], at: datetime) -> None:
    """Account for occurrences that are not run."""
    for row in rows:
        conn.execute(
            _NEW.values(
                job_id=job_id,
                kind=OccurrenceKind.SCHEDULED,
                due=row.due,
                n=0,
                until=row.until,
                count=row.count,
                outcome=row.outcome,
                error=row.error,
                late_s=row.late_s,
                at=at,
            )
        )


def claim(
    conn: Connection,
    *,
    job_id: str,
    kind: OccurrenceKind,
    due: datetime,
    incarnation: str,
    definition: Mapping[str, object],
    at: datetime,
) -> str | None:
    """Claim one occurrence and return the new run's id; None if it was claimed (or accounted for) before.

    Manual runs due in the same microsecond are told apart by `n`.
    """
    n = 0
    if kind is not OccurrenceKind.SCHEDULED:
        n = conn.execute(
            select(func.count()).where(
                occurrences.c.job_id == job_id, occurrences.c.kind == kind, occurrences.c.due == due
            )
        ).scalar_one()
    added = conn.execute(
        _NEW.values(job_id=job_id, kind=kind, due=due, n=n, count=1, late_s=max(0.0, (at - due).total_seconds()), at=at)
    )
    if added.rowcount != 1:
        return None
    run_id = f"run_{uuid4().hex[:12]}"
    conn.execute(
        runs.insert().values(
            id=run_id,
            occurrence_id=added.lastrowid,
            job_id=job_id,
            state=RunState.CLAIMED,
            incarnation=incarnation,
            definition=dict(definition),
        )
    )
    return run_id


def composing_runs(conn: Connection, job_id: str) -> list[RunRow]:
    """Return the job's runs that have not composed yet: what `overlap` looks at."""
    return [_as_run(row) for row in conn.execute(_COMPOSING, {"job_id": job_id})]


def run_by_id(conn: Connection, run_id: str) -> RunRow | None:
    """Return one run."""
    row = conn.execute(_OPEN.where(runs.c.id == run_id)).first()
    return None if row is None else _as_run(row)


def open_runs(conn: Connection) -> list[RunRow]:
    """Return every run that is not closed, in the order of their instants."""
    rows = conn.execute(_OPEN.where(runs.c.state != RunState.CLOSED).order_by(occurrences.c.due))
    return [_as_run(row) for row in rows]


def adopt(conn: Connection, run_id: str, incarnation: str) -> None:
    """Take over a run whose incarnation is dead."""
    conn.execute(_PATCH_RUN, {"run_id": run_id, "incarnation": incarnation})


def begin_attempt(conn: Connection, run_id: str, at: datetime) -> int:
    """Note that the agent is about to be started; return the attempt's number, from 1."""
    conn.execute(
        runs.update()
        .where(runs.c.id == run_id)
        .values(
            state=RunState.COMPOSING,
            attempt=runs.c.attempt + 1,
            started_at=func.coalesce(runs.c.started_at, bindparam("began", at, type_=runs.c.started_at.type)),
            process_group=None,
            leader_ticks=None,
        )
    )
    return int(conn.execute(select(runs.c.attempt).where(runs.c.id == run_id)).scalar_one())


def note_process(conn: Connection, run_id: str, group: int, ticks: int) -> None:
    """Store the process group that works for a run, so that a restart can end it."""
    conn.execute(_PATCH_RUN, {"run_id": run_id, "process_group": group, "leader_ticks": ticks})


def compose(conn: Connection, run_id: str, *, brief: str, details: Mapping[str, object]) -> None:
    """Store the brief; from here on it is never composed again. The caller enqueues its deliveries alongside."""
    conn.execute(_PATCH_RUN, {"run_id": run_id, "state": RunState.COMPOSED, "brief": brief, "details": dict(details)})


def close(
    conn: Connection,
    run_id: str,
    outcome: Outcome,
    *,
    error: str | None,
    at: datetime,
    details: Mapping[str, object] | None = None,
) -> bool:
    """End a run with its occurrence's outcome. False if it had one already: the first one stands."""
    patch = {"run_id": run_id, "state": RunState.CLOSED, "finished_at": at}
    if details:
        patch["details"] = dict(details)
    ended = conn.execute(_END, {"run_id": run_id, "new_outcome": outcome, "new_error": error}).rowcount == 1
    if ended:
        conn.execute(_PATCH_RUN, patch)
    return ended


def close_if_delivered(conn: Connection, run_id: str, at: datetime) -> bool:
    """Close a composed run as `ran` once each of its deliveries has ended; False while one has not."""
    state = conn.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar_one_or_none()
    if state != RunState.COMPOSED or conn.execute(_UNENDED, {"run_id": run_id}).scalar_one():
        return False
    return close(conn, run_id, Outcome.RAN, error=None, at=at)


def ending(conn: Connection, run_id: str) -> tuple[Outcome, str | None]:
    """Return a closed run's outcome and what a person must be told of it: the error, or why a delivery failed."""
    row = conn.execute(
        select(occurrences.c.outcome, occurrences.c.error)
        .join(runs, runs.c.occurrence_id == occurrences.c.id)
        .where(runs.c.id == run_id)
    ).one()
    outcome = Outcome(row.outcome)
    if outcome is Outcome.SILENT:
        return outcome, None
    if outcome is not Outcome.RAN:
        return outcome, row.error or str(outcome)
    lost = conn.execute(
        select(deliveries.c.target, deliveries.c.state, deliveries.c.error)
        .where(deliveries.c.run_id == run_id, deliveries.c.state.in_(_TOLD))
        .order_by(deliveries.c.target)
    ).all()
    causes = [f"delivery to {one.target} is {one.state}: {one.error or 'no reason given'}" for one in lost]
    return outcome, "; ".join(causes) or None


def _as_run(row: Row[tuple[object, ...]]) -> RunRow:
    return RunRow(
        id=row.id,
        job_id=row.job_id,
        job_name=row.job_name,
        kind=OccurrenceKind(row.kind),
        due=row.due,
        state=RunState(row.state),
        incarnation=row.incarnation,
        attempt=row.attempt,
        process_group=row.process_group,
        leader_ticks=row.leader_ticks,
    )
