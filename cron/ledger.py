"""The ledger: one row per occurrence (or per stretch of occurrences that were not run), one run per row that ran.

Functions on a connection, for `db.write` and `db.read`. Once-only is the UNIQUE key (job, kind, due, n): a
second claim of the same occurrence finds the first and does nothing. An outcome is set once and never again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, bindparam, exists, func, null, or_, select

from cron.outcomes import OccurrenceKind, Outcome, RunState
from cron.span import WALKED as MOST
from cron.span import PlannedRow
from delivery.model import DeliveryState
from seeding.prepared import Prepared
from state.schema import clock_steps, deliveries, incarnations, jobs, occurrences, runs

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
    deliver: tuple[str, ...] | None = None  # other targets than the job's


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredSpan:
    """One row of the ledger as far as coverage goes: `due`, or everything from `due` to `until`."""

    id: int
    due: datetime
    until: datetime | None


_NEW = Prepared(
    occurrences.insert().inline().prefix_with("OR IGNORE", dialect="sqlite"),
    columns=["job_id", "kind", "due", "n", "until", "count", "outcome", "error", "late_s", "at"],
)
_NEW_RUN = Prepared(
    runs.insert()
    .inline()
    .values(
        id=bindparam("new_id"),
        occurrence_id=select(occurrences.c.id)
        .where(
            occurrences.c.job_id == bindparam("of_job"),
            occurrences.c.kind == bindparam("of_kind"),
            occurrences.c.due == bindparam("of_due"),
            occurrences.c.n == bindparam("of_n"),
        )
        .scalar_subquery(),
        job_id=bindparam("of_job"),
        state=RunState.CLAIMED,
        incarnation=bindparam("by_incarnation"),
        definition=bindparam("as_read", type_=runs.c.definition.type),
        attempt=0,
    )
)
_OPEN = (
    select(runs, occurrences.c.kind, occurrences.c.due, jobs.c.name.label("job_name"))
    .join(occurrences, occurrences.c.id == runs.c.occurrence_id)
    .join(jobs, jobs.c.id == runs.c.job_id)
)
_COMPOSING = Prepared(
    _OPEN.where(
        runs.c.job_id == bindparam("of_job"),
        or_(runs.c.state == RunState.CLAIMED, runs.c.state == RunState.COMPOSING),
    ).order_by(occurrences.c.due)
)
_BEGIN = Prepared(
    runs.update()
    .where(runs.c.id == bindparam("run_id"))
    .values(
        state=RunState.COMPOSING,
        attempt=bindparam("number"),
        started_at=func.coalesce(runs.c.started_at, bindparam("began", type_=runs.c.started_at.type)),
        process_group=null(),
        leader_ticks=null(),
    )
)
_DUES = select(occurrences.c.due).where(
    occurrences.c.job_id == bindparam("job_id"), occurrences.c.kind == OccurrenceKind.SCHEDULED
)
_BEFORE = Prepared(
    select(
        occurrences.c.id,
        occurrences.c.due,
        occurrences.c.until,
        occurrences.c.outcome,
        occurrences.c.error,
        occurrences.c.count.label("how_many"),
        exists().where(runs.c.occurrence_id == occurrences.c.id).label("has_run"),
    )
    .where(
        occurrences.c.job_id == bindparam("of_job"),
        occurrences.c.kind == OccurrenceKind.SCHEDULED,
        occurrences.c.due <= bindparam("below", type_=occurrences.c.due.type),
    )
    .order_by(occurrences.c.due.desc())
    .limit(1)
)
_SPANS = Prepared(
    select(occurrences.c.id, occurrences.c.due, occurrences.c.until)
    .where(
        occurrences.c.job_id == bindparam("of_job"),
        occurrences.c.kind == OccurrenceKind.SCHEDULED,
        occurrences.c.due > bindparam("since", type_=occurrences.c.due.type),
    )
    .order_by(occurrences.c.due.desc())
    .limit(bindparam("most"))
)
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
    """Account for occurrences that are not run. The row before takes them in if it says the very same."""
    fresh = list(rows)
    if fresh and _is_taken_in(conn, job_id, fresh[0]):
        del fresh[0]
    _NEW.run(
        conn,
        [
            {
                "job_id": job_id,
                "kind": OccurrenceKind.SCHEDULED,
                "due": row.due,
                "n": 0,
                "until": row.until,
                "count": row.count,
                "outcome": row.outcome,
                "error": row.error,
                "late_s": row.late_s,
                "at": at,
            }
            for row in fresh
        ],
    )


def _is_taken_in(conn: Connection, job_id: str, row: PlannedRow) -> bool:
    """Extend the row before: a job of every second that is paused for a week has one row, however often we look."""
    found = _BEFORE.all(conn, {"of_job": job_id, "below": row.due})
    if not found:
        return False
    before = found[0]
    ends = before.until or before.due
    if before.has_run or (before.outcome, before.error) != (row.outcome, row.error) or ends >= row.due:
        return False
    cut(conn, before.id, until=row.until or row.due, count=min(MOST, before.how_many + row.count))
    return True


def claim(
    conn: Connection,
    *,
    job_id: str,
    kind: OccurrenceKind,
    due: datetime,
    incarnation: str,
    definition: Mapping[str, object],
    at: datetime,
    deliver: Sequence[str] | None = None,
) -> str | None:
    """Claim one occurrence and return the new run's id; None if it was claimed (or accounted for) before.

    Manual runs due in the same microsecond are told apart by `n`. `deliver`: other targets than the job's.
    """
    n = 0
    if kind is not OccurrenceKind.SCHEDULED:
        n = conn.execute(
            select(func.count()).where(
                occurrences.c.job_id == job_id, occurrences.c.kind == kind, occurrences.c.due == due
            )
        ).scalar_one()
    late = max(0.0, (at - due).total_seconds())
    row = {"job_id": job_id, "kind": kind, "due": due, "n": n, "until": None, "count": 1, "late_s": late, "at": at}
    if _NEW.run(conn, [row | {"outcome": None, "error": None}]) != 1:
        return None
    run_id = f"run_{uuid4().hex[:12]}"
    as_read = dict(definition) if deliver is None else {**definition, "deliver": list(deliver)}
    _NEW_RUN.run(
        conn,
        [
            {
                "new_id": run_id,
                "of_job": job_id,
                "of_kind": kind,
                "of_due": due,
                "of_n": n,
                "by_incarnation": incarnation,
                "as_read": as_read,
            }
        ],
    )
    return run_id


def composing_runs(conn: Connection, job_id: str) -> list[RunRow]:
    """Return the job's runs that have not composed yet: what `overlap` looks at."""
    return [_as_run(row) for row in _COMPOSING.all(conn, {"of_job": job_id})]


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


def begin_attempt(conn: Connection, run_id: str, attempt: int, at: datetime) -> None:
    """Note that the agent is about to be started for the attempt of this number, from 1."""
    _BEGIN.run(conn, [{"run_id": run_id, "number": attempt, "began": at}])


def await_retry(conn: Connection, run_id: str) -> None:
    """Note that an attempt has failed and nothing works on the run any more: it is as if claimed, until the next."""
    conn.execute(
        runs.update()
        .where(runs.c.id == run_id, runs.c.state == RunState.COMPOSING)
        .values(state=RunState.CLAIMED, process_group=None, leader_ticks=None)
    )


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


def dues_after(conn: Connection, job_id: str, cursor: datetime) -> frozenset[datetime]:
    """Return the instants beyond a cursor that have a row (the clock was set back); they never run again."""
    rows = conn.execute(_DUES.where(occurrences.c.due > cursor), {"job_id": job_id})
    return frozenset(rows.scalars())


def spans_after(conn: Connection, job_id: str, since: datetime, limit: int) -> list[CoveredSpan]:
    """Return what the newest rows after an instant cover, oldest first."""
    rows = _SPANS.all(conn, {"of_job": job_id, "since": since, "most": limit})
    return [CoveredSpan(id=row.id, due=row.due, until=row.until) for row in reversed(rows)]


def shared_beyond(conn: Connection, job_id: str, at: datetime) -> list[CoveredSpan]:
    """Return the shared rows that cover something later than an instant."""
    rows = conn.execute(
        select(occurrences.c.id, occurrences.c.due, occurrences.c.until).where(
            occurrences.c.job_id == job_id,
            occurrences.c.kind == OccurrenceKind.SCHEDULED,
            or_(occurrences.c.due > at, occurrences.c.until > at),
            occurrences.c.until.is_not(None),
        )
    )
    return [CoveredSpan(id=row.id, due=row.due, until=row.until) for row in rows]


def cut(conn: Connection, occurrence_id: int, *, until: datetime | None, count: int) -> None:
    """Let a shared row cover less; `until` None: only its own `due`."""
    conn.execute(occurrences.update().where(occurrences.c.id == occurrence_id).values(until=until, count=count))


def note_clock_step(conn: Connection, *, at: datetime, seen: datetime, jobs_moved: int) -> None:
    """Write down that the clock shows `at` although the ledger had come to `seen`."""
    conn.execute(clock_steps.insert().values(at=at, seen=seen, jobs=jobs_moved))


def covers(conn: Connection, job_id: str, due: datetime) -> bool:
    """Tell whether an instant has a row as a scheduled occurrence, its own or a shared one."""
    found = conn.execute(
        select(occurrences.c.id)
        .where(
            occurrences.c.job_id == job_id,
            occurrences.c.kind == OccurrenceKind.SCHEDULED,
            or_(occurrences.c.due == due, (occurrences.c.due <= due) & (occurrences.c.until >= due)),
        )
        .limit(1)
    ).first()
    return found is not None


def _as_run(row: Any) -> RunRow:
    deliver = row.definition.get("deliver")
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
        deliver=None if deliver is None else tuple(deliver),
    )
