"""The list of jobs: what the file says, what the database remembers, and when each is due."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cron import views
from cron.jobbook import JobRow
from cron.model import Job
from cron.page import queries
from cron.page.queries import Ending
from cron.page.served import Desk
from cron.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """One job as the page lists it. `paused_until` means something only while it is paused."""

    job: Job
    next_at: datetime | None
    is_paused: bool
    paused_until: datetime | None
    paused_by: str
    last: Ending | None
    open_run: str | None

    def as_listed(self) -> dict[str, Any]:
        """Return the row of `hermes-cron list --json`."""
        return {
            "job": self.job.name,
            "schedule": "; ".join(self.job.schedules),
            "timezone": self.job.timezone,
            "next": views.iso(self.next_at, self.job.timezone),
            "paused": self.is_paused,
            "last_outcome": None if self.last is None else self.last.outcome,
            "enabled": self.job.enabled,
        }


async def list_jobs(desk: Desk, *, words: str = "", first: int = 0, most: int | None = None) -> list[ListedJob]:
    """List the jobs of the file whose names hold `words`, in the file's order, from number `first` on."""
    config, now = desk.served.control.config(), desk.served.control.now()
    wanted = [job for job in config.jobs.values() if words.casefold() in job.name.casefold()]
    chosen = wanted[first:] if most is None else wanted[first : first + most]
    names = [job.name for job in chosen]
    facts = await desk.db.read(lambda conn: queries.job_facts(conn, names))
    planned = {one.job.name: one.schedule for one in desk.served.control.planner.planned.values()}
    # Stepping thousands of schedules takes a while: in a thread, so that nothing waits for it.
    return await asyncio.to_thread(_listed, chosen, facts, planned, now)


def _listed(
    chosen: Sequence[Job], facts: queries.JobFacts, planned: Mapping[str, Schedule], now: datetime
) -> list[ListedJob]:
    return [_one(job, facts.rows.get(job.name), facts, planned.get(job.name), now) for job in chosen]


def _one(job: Job, row: JobRow | None, facts: queries.JobFacts, schedule: Schedule | None, now: datetime) -> ListedJob:
    pause = None if row is None else row.pause
    is_paused = pause is not None and (pause.until is None or pause.until > now)
    return ListedJob(
        job=job,
        next_at=None if schedule is None else schedule.next_after(now),
        is_paused=is_paused,
        paused_until=pause.until if pause is not None and is_paused else None,
        paused_by=pause.by if pause is not None and is_paused else "",
        last=None if row is None else facts.endings.get(row.id),
        open_run=None if row is None else facts.open_runs.get(row.id),
    )
