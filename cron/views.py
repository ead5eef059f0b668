"""What people and scripts are shown: rows of the ledger as the JSON shapes of the command line, a contract.

Functions on a connection; a read-only one will do. Instants are ISO 8601 with an offset, `due` in the job's zone.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, RowMapping, Select, select

from delivery.model import PartKind
from state.schema import deliveries, jobs, occurrences, parts, receipts, runs, sessions, turns

NEWEST_RUNS = 50

_RUNS = (
    select(
        occurrences.c.id,
        occurrences.c.kind,
        occurrences.c.due,
        occurrences.c.until,
        occurrences.c.count,
        occurrences.c.outcome,
        occurrences.c.error,
        occurrences.c.late_s,
        jobs.c.name.label("job"),
        jobs.c.definition,
        runs.c.id.label("run"),
        runs.c.started_at,
        runs.c.finished_at,
        runs.c.state,
        runs.c.attempt,
        runs.c.brief,
        runs.c.details,
    )
    .join(jobs, jobs.c.id == occurrences.c.job_id)
    .outerjoin(runs, runs.c.occurrence_id == occurrences.c.id)
    .order_by(occurrences.c.due.desc(), occurrences.c.id.desc())
)


def list_runs(
    conn: Connection, *, job: str | None = None, limit: int = NEWEST_RUNS, offset: int = 0
) -> list[dict[str, Any]]:
    """Return the newest rows of the ledger (after the first `offset`), with their deliveries, newest first."""
    newest = _RUNS.limit(limit).offset(offset)
    statement = newest if job is None else newest.where(jobs.c.name == job)
    return _with_deliveries(conn, conn.execute(statement).mappings().all())


def one_run(conn: Connection, run_id: str) -> dict[str, Any] | None:
    """Return one run in the shape of `runs`, or None."""
    rows = _with_deliveries(conn, conn.execute(_RUNS.where(runs.c.id == run_id)).mappings().all())
    return rows[0] if rows else None


def whole_run(conn: Connection, run_id: str) -> dict[str, Any] | None:
    """Return one run whole: as in `runs`, with the brief as composed, and each delivery's parts as delivered."""
    row = conn.execute(_RUNS.where(runs.c.id == run_id)).mappings().first()
    if row is None:
        return None
    shown = _with_deliveries(conn, [row])[0]
    shown |= {"state": row["state"], "attempt": row["attempt"], "brief": row["brief"], "details": row["details"] or {}}
    for delivery in shown["deliveries"]:
        pieces = conn.execute(
            select(parts.c.n, parts.c.kind, parts.c.state, parts.c.text, parts.c.error)
            .where(parts.c.delivery_id == delivery["id"])
            .order_by(parts.c.n)
        )
        delivery["parts"] = [dict(piece._mapping) for piece in pieces]
        delivery["delivered"] = "".join(
            piece["text"] for piece in delivery["parts"] if piece["kind"] == PartKind.TEXT and piece["state"] == "sent"
        )
    return shown


def one_delivery(conn: Connection, delivery_id: str) -> dict[str, Any] | None:
    """Return one delivery in the shape of `runs`, or None."""
    row = conn.execute(select(deliveries).where(deliveries.c.id == delivery_id)).mappings().first()
    if row is None:
        return None
    ids = _message_ids(conn, select(deliveries.c.id).where(deliveries.c.id == delivery_id))
    return _delivery(row, list(ids.get(delivery_id, [])))


def last_outcomes(conn: Connection) -> dict[str, str | None]:
    """Return each job's newest outcome that is set, by the job's name."""
    newest: dict[str, str | None] = {}
    for name, job_id in conn.execute(select(jobs.c.name, jobs.c.id)):
        newest[name] = conn.execute(
            select(occurrences.c.outcome)
            .where(occurrences.c.job_id == job_id, occurrences.c.outcome.is_not(None))
            .order_by(occurrences.c.due.desc(), occurrences.c.id.desc())
            .limit(1)
        ).scalar_one_or_none()
    return newest


def transcript(conn: Connection, session_id: str) -> list[dict[str, Any]] | None:
    """Return the stored turns of a session, oldest first; None if there is no such session."""
    if conn.execute(select(sessions.c.id).where(sessions.c.id == session_id)).first() is None:
        return None
    rows = conn.execute(
        select(turns.c.role, turns.c.text, turns.c.at, turns.c.origin, turns.c.author)
        .where(turns.c.session_id == session_id)
        .order_by(turns.c.id)
    )
    return [dict(row._mapping) | {"at": iso(row.at)} for row in rows]


def trouble(row: Mapping[str, Any]) -> str:
    """Say what went wrong with a row of `list_runs`: its error, and each delivery that did not arrive as asked."""
    said = [row["error"]] if row["error"] else []
    for one in row["deliveries"]:
        if one["error"]:
            said.append(f"{one['target']} is {one['state']}: {one['error']}")
    return "; ".join(said)


def iso(at: datetime | None, zone: str | None = None) -> str | None:
    """Write an instant with its offset, in UTC or in a zone, whole seconds where it has no more."""
    if at is None:
        return None
    return at.astimezone(UTC if zone is None else ZoneInfo(zone)).isoformat()


def _with_deliveries(conn: Connection, rows: Sequence[RowMapping]) -> list[dict[str, Any]]:
    by_run = _deliveries_of(conn, [row["run"] for row in rows if row["run"] is not None])
    return [_run(row, by_run.get(row["run"], [])) for row in rows]


def _run(row: RowMapping, sent: list[dict[str, Any]]) -> dict[str, Any]:
    zone = row["definition"].get("timezone")
    return {
        "job": row["job"],
        "due": iso(row["due"], zone),
        "outcome": row["outcome"],
        "run": row["run"],
        "started_at": iso(row["started_at"]),
        "finished_at": iso(row["finished_at"]),
        "late_s": row["late_s"],
        "error": row["error"],
        "kind": row["kind"],
        "until": iso(row["until"], zone),
        "count": row["count"],
        "deliveries": sent,
    }


def _deliveries_of(conn: Connection, run_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for first in range(0, len(run_ids), 500):  # SQLite takes 999 values in one statement at least
        some = run_ids[first : first + 500]
        ids = _message_ids(conn, select(deliveries.c.id).where(deliveries.c.run_id.in_(some)))
        statement = select(deliveries).where(deliveries.c.run_id.in_(some)).order_by(deliveries.c.seq)
        for row in conn.execute(statement).mappings():
            grouped.setdefault(row["run_id"], []).append(_delivery(row, ids.get(row["id"], [])))
    return grouped


def _message_ids(conn: Connection, wanted: Select[tuple[str]]) -> Mapping[str, list[str]]:
    rows = conn.execute(
        select(receipts.c.delivery_id, receipts.c.message)
        .join(parts, (parts.c.delivery_id == receipts.c.delivery_id) & (parts.c.n == receipts.c.n))
        .where(receipts.c.delivery_id.in_(wanted), parts.c.kind == PartKind.TEXT)
        .order_by(receipts.c.delivery_id, receipts.c.n)
    )
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row.delivery_id, []).append(row.message)
    return ids


def _delivery(row: RowMapping, message_ids: list[str]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "target": row["target"],
        "state": row["state"],
        "message_ids": message_ids,
        "flat_session": row["flat_session"],
        "thread_session": row["thread_session"],
        "flat_seeded": row["flat_seeded"],
        "thread_seeded": row["thread_seeded"],
        "root": row["root"],
        "error": row["error"],
    }
