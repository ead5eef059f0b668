"""Look at each start whether the ledger holds what it promises: a job's rows are disjoint and cover anchor to cursor.

What does not hold is repaired, with a line in the log. Only the newest rows are looked at: older ones were newest
at an earlier start.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from sqlalchemy import Connection

from cron import jobbook, ledger
from cron.definitions import schedule_of
from cron.jobbook import JobRow
from cron.ledger import CoveredSpan
from cron.outcomes import Outcome
from cron.schedule import ScheduleError
from cron.span import INSTANT, PlannedRow, Series

log = logging.getLogger(__name__)

NEWEST = 20  # rows of a job that are looked at
WALKED = 500  # instants of a job that are looked at
LOST = "No row was found for it when the daemon was started; whether it ran is not known."


def faulty_jobs(conn: Connection, rows: Sequence[JobRow]) -> list[str]:
    """Return the ids of the jobs whose rows have gaps or lie over each other. Reads only."""
    return [row.id for row in rows if _faults(conn, row) is not None]


def repair_job(conn: Connection, job_id: str, at: datetime) -> None:
    """Close the gaps of a job's rows with `unknown`, and cut shared rows that cover what has a row of its own."""
    row = jobbook.job_by_id(conn, job_id)
    faults = None if row is None else _faults(conn, row)
    if row is None or faults is None:
        return
    missing, overlapping = faults
    for span, until in overlapping:
        ledger.cut(conn, span.id, until=until if until != span.due else None, count=_count(row, span.due, until))
    if overlapping:  # what a cut row covered behind the other one has none now
        again = _faults(conn, row)
        missing = [] if again is None else again[0]
    ledger.write_rows(conn, job_id, _lost(missing, _series(row), at), at)
    log.warning(
        "A job's rows had gaps or lay over each other; that is repaired.",
        extra={"action": "ledger_repaired", "job": row.name, "missing": len(missing), "overlapping": len(overlapping)},
    )


def _faults(conn: Connection, row: JobRow) -> tuple[list[datetime], list[tuple[CoveredSpan, datetime]]] | None:
    """Return the instants without a row, and the shared rows to be cut with the last instant that they may keep."""
    series = _series(row)
    if series is None:
        return None
    since = row.anchor if row.floor is None else max(row.anchor, row.floor)
    spans = ledger.spans_after(conn, row.id, since, NEWEST)
    if len(spans) == NEWEST:
        since = spans[0].due - INSTANT
    instants = series.between(since, row.cursor, WALKED)
    missing = [instant for instant in instants if not any(_covers(span, instant) for span in spans)]
    own = {span.due for span in spans}
    overlapping = []
    for span in spans:
        inside = [due for due in own if span.until is not None and span.due < due <= span.until]
        if inside:
            before = series.latest_until(min(inside) - INSTANT, after=span.due - INSTANT)
            overlapping.append((span, before or span.due))
    return (missing, overlapping) if missing or overlapping else None


def _series(row: JobRow) -> Series | None:
    try:
        return schedule_of(row.definition, row.anchor).without_exclusions()
    except (ScheduleError, KeyError, ValueError):
        log.exception("A stored schedule cannot be read.", extra={"action": "schedule_unreadable", "job": row.name})
        return None


def _covers(span: CoveredSpan, instant: datetime) -> bool:
    return span.due == instant or (span.until is not None and span.due <= instant <= span.until)


def _count(row: JobRow, first: datetime, last: datetime) -> int:
    series = _series(row)
    return 1 if series is None else len(series.between(first - INSTANT, last, WALKED))


def _lost(missing: Sequence[datetime], series: Series | None, at: datetime) -> list[PlannedRow]:
    """Neighbours share a row."""
    if series is None:
        return []
    place: dict[datetime, int] = {}
    number = 0
    for index, instant in enumerate(missing):
        if index and series.next_after(missing[index - 1]) != instant:
            number += 1
        place[instant] = number
    rows = []
    for _, group in groupby(missing, key=place.__getitem__):
        stretch = list(group)
        rows.append(
            PlannedRow(
                due=stretch[0],
                until=stretch[-1] if len(stretch) > 1 else None,
                count=len(stretch),
                outcome=Outcome.UNKNOWN,
                error=LOST,
                late_s=max(0.0, (at - stretch[0]).total_seconds()),
            )
        )
    return rows
