"""What the database remembers of jobs: anchor, cursor, pauses, streaks. What a job *is* stands in jobs.yaml.

Functions on a connection, for `db.write` and `db.read`. All instants are aware and in UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Row, bindparam, null, select

from cron.model import JobId
from cron.span import Pause
from seeding.prepared import Prepared
from state.schema import jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One row of `jobs`. Every occurrence up to and including `cursor` has its row in the ledger."""

    id: JobId
    name: str
    fingerprint: str
    definition: Mapping[str, object]
    anchor: datetime
    cursor: datetime
    revision: int
    pause: Pause | None
    failures: int
    incident: str | None
    incident_told_at: datetime | None
    is_removed: bool
    floor: datetime | None = None  # rows up to here were pruned
    ahead_until: datetime | None = None  # rows may exist beyond the cursor, up to here: the clock was set back


_ALL = select(jobs)
_ONE = _ALL.where(jobs.c.id == bindparam("job_id"))
_FLOOR = select(jobs.c.floor).where(jobs.c.id == bindparam("job_id"))
_PATCH = jobs.update().where(jobs.c.id == bindparam("job_id"))
_ADD = Prepared(
    jobs.insert().inline(),
    columns=["id", "name", "fingerprint", "definition", "anchor", "cursor", "seen_at", "revision", "failures"],
)
_KEEP = Prepared(
    jobs.update()
    .where(jobs.c.id == bindparam("job_id"))
    .values(
        name=bindparam("new_name"),
        definition=bindparam("as_read", type_=jobs.c.definition.type),
        removed_at=null(),
        seen_at=bindparam("now", type_=jobs.c.seen_at.type),
    )
)
_ADVANCE = Prepared(
    jobs.update()
    .where(jobs.c.id == bindparam("job_id"), jobs.c.cursor == bindparam("old"), jobs.c.revision == bindparam("rev"))
    .values(cursor=bindparam("new", type_=jobs.c.cursor.type))
)


def all_jobs(conn: Connection) -> list[JobRow]:
    """Return every job that was ever read from the file, removed ones included."""
    return [_as_row(row) for row in conn.execute(_ALL)]


def job_by_id(conn: Connection, job_id: str) -> JobRow | None:
    """Return one job's row."""
    row = conn.execute(_ONE, {"job_id": job_id}).first()
    return None if row is None else _as_row(row)


def add_job(
    conn: Connection, *, job_id: str, name: str, fingerprint: str, definition: Mapping[str, object], at: datetime
) -> None:
    """Write a new job down: its cursor is the instant at which it was first read, its anchor that second."""
    values = {"id": job_id, "name": name, "fingerprint": fingerprint, "definition": dict(definition)}
    fresh = {"anchor": at.replace(microsecond=0), "cursor": at, "seen_at": at, "revision": 0, "failures": 0}
    _ADD.run(conn, [values | fresh])


def reanchor(
    conn: Connection, row: JobRow, *, name: str, fingerprint: str, definition: Mapping[str, object], at: datetime
) -> None:
    """Begin a changed (or returned) schedule at `at`; nothing before it will be run."""
    job_id = row.id
    conn.execute(
        _PATCH,
        {"job_id": job_id}
        | {
            "name": name,
            "fingerprint": fingerprint,
            "definition": dict(definition),
            "anchor": at.replace(microsecond=0),
            "cursor": at,
            "ahead_until": max(filter(None, (row.ahead_until, row.cursor))) if row.cursor > at else row.ahead_until,
            "removed_at": None,
            "seen_at": at,
        },
    )
    _revise(conn, job_id)


def _revise(conn: Connection, job_id: str) -> None:
    conn.execute(jobs.update().where(jobs.c.id == job_id).values(revision=jobs.c.revision + 1))


def keep(conn: Connection, job_id: str, *, name: str, definition: Mapping[str, object], at: datetime) -> None:
    """Note that an unchanged schedule was read again (perhaps under a new name)."""
    _KEEP.run(conn, [{"job_id": job_id, "new_name": name, "as_read": dict(definition), "now": at}])


def free_name(conn: Connection, row: JobRow) -> None:
    """Let a removed job keep its history under another name: a living one takes its own."""
    conn.execute(_PATCH, {"job_id": row.id, "name": f"{row.name} (removed, {row.id})"})


def remove(conn: Connection, job_id: str, at: datetime) -> None:
    """Note that the file names the job no more (or has it disabled)."""
    conn.execute(_PATCH, {"job_id": job_id, "removed_at": at})


def advance(conn: Connection, row: JobRow, cursor: datetime) -> bool:
    """Move the cursor, if nobody moved it since the row was read; False if somebody did."""
    values = {"job_id": row.id, "old": row.cursor, "rev": row.revision, "new": cursor}
    return _ADVANCE.run(conn, [values]) == 1


def set_back(conn: Connection, row: JobRow, at: datetime) -> None:
    """Move the cursor back to `at`, because the clock was: rows beyond it stay, and what they name never runs again.

    An anchor that lies in the future now is moved as well, else intervals would wait until then.
    """
    pruned = conn.execute(_FLOOR, {"job_id": row.id}).scalar()
    at = at if pruned is None else max(at, pruned)  # what was pruned has no row to keep it from running again
    ahead = row.cursor if row.ahead_until is None else max(row.cursor, row.ahead_until)
    anchor = min(row.anchor, at.replace(microsecond=0))
    conn.execute(_PATCH, {"job_id": row.id, "cursor": at, "anchor": anchor, "ahead_until": ahead})
    _revise(conn, row.id)


def pause(conn: Connection, job_id: str, pause: Pause) -> None:
    """Skip what is due from `pause.since` on."""
    conn.execute(
        _PATCH,
        {"job_id": job_id, "paused_at": pause.since, "paused_until": pause.until, "paused_by": pause.by},
    )
    _revise(conn, job_id)  # whoever planned without knowing of it plans again


def resume(conn: Connection, job_id: str) -> None:
    """End a pause; what it covered stays skipped, and failures are counted anew."""
    conn.execute(_PATCH, {"job_id": job_id, "paused_at": None, "paused_until": None, "paused_by": None, "failures": 0})
    _revise(conn, job_id)


def note_health(
    conn: Connection, job_id: str, *, failures: int, incident: str | None, told_at: datetime | None
) -> None:
    """Store the streak of failures and the incident that was told."""
    conn.execute(_PATCH, {"job_id": job_id, "failures": failures, "incident": incident, "incident_told_at": told_at})


def _as_row(row: Row[tuple[object, ...]]) -> JobRow:
    is_paused = row.paused_at is not None
    return JobRow(
        id=row.id,
        name=row.name,
        fingerprint=row.fingerprint,
        definition=row.definition,
        anchor=row.anchor,
        cursor=row.cursor,
        revision=row.revision,
        pause=Pause(since=row.paused_at, until=row.paused_until, by=row.paused_by or "") if is_paused else None,
        failures=row.failures,
        incident=row.incident,
        incident_told_at=row.incident_told_at,
        is_removed=row.removed_at is not None,
        floor=row.floor,
        ahead_until=row.ahead_until,
    )
