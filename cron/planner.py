"""Cover every instant that the schedules name with a row, and start what is due. Woken by the engine.

A pass takes the jobs that were woken, decides about the span from each cursor to now (`cron.span`), and writes
advance, claims and rows of one job in one transaction. Whoever moved the cursor first has won; the other reads
again. Long backlogs are walked in a thread.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from cron import jobbook, ledger
from cron.alerts import Alerts, Ending
from cron.definitions import definition_of, policy_of
from cron.engine import Engine
from cron.jobbook import JobRow
from cron.ledger import RunRow
from cron.model import Job, JobId, Overlap
from cron.outcomes import OccurrenceKind, Outcome
from cron.runner import Assignment, Runner
from cron.schedule import Schedule
from cron.span import Pause, Plan, PlannedRow, plan_span
from state.clock import Monotonic, Now, Sleep
from state.database import Database

log = logging.getLogger(__name__)

PREPARED = 3  # instants that the engine holds of each job
CHUNK = 100  # jobs that are planned between two looks at the event loop
WATCH_EVERY = 2.0  # seconds between two comparisons of the wall clock with the monotonic one
JUMP = 2.0  # seconds of difference that mean: the machine slept, or somebody set the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One job that is planned: as the file says, as the database remembers, and its series."""

    job: Job
    row: JobRow
    schedule: Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    runs: tuple[tuple[datetime, str], ...]
    rows: tuple[PlannedRow, ...]
    in_the_way: tuple[RunRow, ...]


class Planner:
    """Owns the cursors. `replace_jobs` first, then `run` until cancelled."""

    def __init__(
        self,
        *,
        db: Database,
        runner: Runner,
        alerts: Alerts,
        incarnation: str,
        now: Now,
        monotonic: Monotonic,
        sleep: Sleep,
    ) -> None:
        self._db = db
        self._runner = runner
        self._alerts = alerts
        self._incarnation = incarnation
        self._now = now
        self._monotonic = monotonic
        self._sleep = sleep
        self._engine = Engine(self.wake)
        self._jobs: dict[JobId, Planned] = {}
        self._woken: set[JobId] = set()
        self._is_woken = asyncio.Event()
        self._passing = asyncio.Lock()
        self._missed_until = now()

    # --- what others ask ------------------------------------------------------------------------------

    @property
    def planned(self) -> Mapping[JobId, Planned]:
        """The jobs that are planned now, by id."""
        return self._jobs

    def by_name(self, name: str) -> Planned | None:
        """Return the planned job of that name."""
        return next((planned for planned in self._jobs.values() if planned.job.name == name), None)

    def replace_jobs(self, planned: Sequence[Planned]) -> None:
        """Plan these jobs and no others; what was due in between is covered by the next pass."""
        self._jobs = {one.row.id: one for one in planned}
        for job_id in list(self._engine.armed):
            if job_id not in self._jobs:
                self._engine.disarm(job_id)
        self._woken |= set(self._jobs)
        self._is_woken.set()

    def wake(self, job_id: JobId) -> None:
        """Have a job looked at in the next pass."""
        self._woken.add(job_id)
        self._is_woken.set()

    async def trigger(self, job_id: JobId) -> str:
        """Claim a manual run, due now, and start it; returns its id. It moves no cursor."""
        planned = self._jobs[job_id]
        at = self._now()
        run_id = await self._db.write(
            partial(
                ledger.claim,
                job_id=job_id,
                kind=OccurrenceKind.MANUAL,
                due=at,
                incarnation=self._incarnation,
                definition=definition_of(planned.job),
                at=at,
            )
        )
        assert run_id is not None, "manual occurrences are told apart by n"
        self._runner.start(
            Assignment(
                job=planned.job,
                job_id=job_id,
                run_id=run_id,
                kind=OccurrenceKind.MANUAL,
                due=at,
                wait_for=frozenset(self._runner.composing(job_id)),
            )
        )
        return run_id

    async def pause(self, job_id: JobId, *, until: datetime | None, by: str) -> None:
        """Skip the job's occurrences from now on. What was due before is covered first."""
        async with self._passing:
            await self._cover([job_id])
            pause = Pause(since=self._now(), until=until, by=by)
            await self._db.write(partial(jobbook.pause, job_id=job_id, pause=pause))
            await self._reread(job_id)

    async def resume(self, job_id: JobId) -> None:
        """End a pause; its occurrences stay skipped, the next one runs."""
        async with self._passing:
            await self._cover([job_id])
            await self._db.write(partial(jobbook.resume, job_id=job_id))
            await self._reread(job_id)

    async def run(self) -> None:
        """Plan until cancelled."""
        self._engine.start()
        watching = asyncio.ensure_future(self._watch_clock())
        try:
            while True:
                await self._is_woken.wait()
                self._is_woken.clear()
                woken, self._woken = self._woken, set()
                await self.pass_over(woken)
        finally:
            watching.cancel()
            self._engine.stop()

    async def pass_over(self, job_ids: Collection[JobId]) -> None:
        """Cover these jobs up to now and start what is due, in the order of the instants."""
        async with self._passing:
            await self._cover(job_ids)

    # --- one pass -------------------------------------------------------------------------------------

    async def _cover(self, job_ids: Collection[JobId]) -> None:
        jobs = [self._jobs[job_id] for job_id in job_ids if job_id in self._jobs]
        for first in range(0, len(jobs), CHUNK):
            chunk = jobs[first : first + CHUNK]
            now = self._now()
            plans = await asyncio.to_thread(self._plan_all, chunk, now)
            results = await asyncio.gather(
                *(self._apply(one, plan, now) for one, (plan, _) in zip(chunk, plans, strict=True)),
                return_exceptions=True,
            )
            for one, (_, upcoming), result in zip(chunk, plans, results, strict=True):
                if isinstance(result, BaseException):
                    self._plan_failed(one, result)
                self._engine.arm(one.row.id, upcoming, self._now())

    def _plan_all(self, chunk: Sequence[Planned], now: datetime) -> list[tuple[Plan, list[datetime]]]:
        return [self._plan(one, now) for one in chunk]

    def _plan(self, one: Planned, now: datetime) -> tuple[Plan, list[datetime]]:
        """Decide about one job, and prepare its next instants. Pure; runs in a thread."""
        plan = plan_span(
            one.schedule,
            policy_of(definition_of(one.job), one.schedule, now),
            cursor=one.row.cursor,
            now=now,
            missed_until=self._missed_until,
            pause=one.row.pause,
        )
        # Days off wake us too: they have rows of their own.
        series = one.schedule.without_exclusions()
        upcoming: list[datetime] = []
        following = series.next_after(plan.cursor)
        while following is not None and len(upcoming) < PREPARED:
            upcoming.append(following)
            following = series.next_after(following)
        return plan, upcoming

    async def _apply(self, one: Planned, plan: Plan, now: datetime) -> None:
        if not plan.rows and not plan.due:
            return
        claims = await self._db.write(lambda conn: self._write(conn, one, plan, now))
        if claims is None:
            await self._reread(one.row.id)
            self.wake(one.row.id)
            return
        self._jobs[one.row.id] = replace(one, row=replace(one.row, cursor=plan.cursor))
        if one.job.overlap is Overlap.CANCEL and claims.runs:
            for run in claims.in_the_way:
                await self._runner.cancel(run.id, "the next occurrence")
        self._start(one, claims)
        await self._tell_skipped(one, claims.rows, now)

    def _write(self, conn: Connection, one: Planned, plan: Plan, at: datetime) -> _Claims | None:
        """Advance, rows and claims in one transaction; None if somebody advanced before."""
        if not jobbook.advance(conn, one.row, plan.cursor):
            return None
        busy = ledger.composing_runs(conn, one.row.id)
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
                incarnation=self._incarnation,
                definition=definition,
                at=at,
            )
            if run_id is not None:
                runs.append((due, run_id))
        ledger.write_rows(conn, one.row.id, rows, at)
        return _Claims(runs=tuple(runs), rows=tuple(rows), in_the_way=tuple(busy))

    def _start(self, one: Planned, claims: _Claims) -> None:
        before = [run.id for run in claims.in_the_way]
        for due, run_id in claims.runs:
            # Several at once are a backlog: they run one after the other, whatever `overlap` says, unless it allows.
            queues = one.job.overlap is Overlap.QUEUE or (len(claims.runs) > 1 and one.job.overlap is not Overlap.ALLOW)
            self._runner.start(
                Assignment(
                    job=one.job,
                    job_id=one.row.id,
                    run_id=run_id,
                    kind=OccurrenceKind.SCHEDULED,
                    due=due,
                    wait_for=frozenset(before) if queues else frozenset(),
                    is_missed=due <= self._missed_until,
                )
            )
            before.append(run_id)

    async def _tell_skipped(self, one: Planned, rows: Sequence[PlannedRow], at: datetime) -> None:
        """A missed occurrence counts as a failure; the other skips are what the job asked for."""
        for row in rows:
            log.info(
                "Occurrences were not run.",
                extra={"action": "occurrence_skipped", "job": one.job.name, "outcome": row.outcome, "count": row.count},
            )
            if row.outcome is Outcome.SKIPPED_LATE:
                due = row.due.astimezone(ZoneInfo(one.job.timezone))
                ending = Ending(job=one.job, job_id=one.row.id, due=due, run_id=None, cause=row.error)
                await self._alerts.ended(ending, at)

    def _plan_failed(self, one: Planned, error: BaseException) -> None:
        """Keep the other jobs going; this one is planned again with its next wake-up."""
        log.error(
            "A job could not be planned.",
            exc_info=error,
            extra={"action": "planning_failed", "job": one.job.name},
        )

    async def _reread(self, job_id: JobId) -> None:
        row = await self._db.read(lambda conn: jobbook.job_by_id(conn, job_id))
        if row is not None and job_id in self._jobs:
            self._jobs[job_id] = replace(self._jobs[job_id], row=row)

    # --- sleep and clock changes ----------------------------------------------------------------------

    async def _watch_clock(self) -> None:
        """Notice that the machine slept or that the clock was set: timers are monotonic and would be late."""
        wall, steady = self._now(), self._monotonic()
        while True:
            await self._sleep(WATCH_EVERY)
            jumped = (self._now() - wall).total_seconds() - (self._monotonic() - steady)
            wall, steady = self._now(), self._monotonic()
            if abs(jumped) > JUMP:
                log.warning(
                    "The clock jumped; every job is looked at again.",
                    extra={"action": "clock_jumped", "seconds": round(jumped, 1)},
                )
                if jumped > 0:
                    self._missed_until = wall
                self._engine.nudge()
                self._woken |= set(self._jobs)
                self._is_woken.set()


def _overlap_row(due: datetime, busy: RunRow, at: datetime) -> PlannedRow:
    return PlannedRow(
        due=due,
        outcome=Outcome.SKIPPED_OVERLAP,
        error=f"Run {busy.id}, due {busy.due.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}, was still composing.",
        late_s=max(timedelta(0), at - due).total_seconds(),
    )
