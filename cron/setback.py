"""The clock was found far behind what is accounted for already: it was wrong, and has been corrected.

Cursors go back to now, shared rows are cut there, and what has a row of its own never runs again.
"""

import logging
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from cron import jobbook, ledger
from cron.jobbook import JobRow
from cron.ledger import CoveredSpan
from cron.span import INSTANT, WALKED, Series

log = logging.getLogger(__name__)


def set_back_jobs(conn: Connection, jobs: Sequence[tuple[JobRow, Series]], at: datetime) -> None:
    """Take the cursors of these jobs back to `at`, and write down that the clock went back."""
    seen = max(row.cursor for row, _ in jobs)
    for row, series in jobs:
        jobbook.set_back(conn, row, at)
        for span in ledger.shared_beyond(conn, row.id, at):
            _cut(conn, span, series.without_exclusions(), at)
    ledger.note_clock_step(conn, at=at, seen=seen, jobs_moved=len(jobs))
    log.warning(
        "The clock is behind what is accounted for already: cursors went back to now, and nothing runs twice.",
        extra={"action": "clock_set_back", "seen": seen.isoformat(), "jobs": len(jobs)},
    )


def _cut(conn: Connection, span: CoveredSpan, every: Series, at: datetime) -> None:
    last = every.latest_until(at, after=span.due - INSTANT) if span.due <= at else None
    if last is None or last == span.due:
        ledger.cut(conn, span.id, until=None, count=1)
    else:
        count = len(every.between(span.due - INSTANT, last, WALKED))
        ledger.cut(conn, span.id, until=last, count=count)
