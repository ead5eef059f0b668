"""Cover every instant that the schedules name with a row, and start what is due. Woken by the engine.

A pass takes the jobs that were woken, decides about the span from each cursor to now (`cron.span`), and writes
advance, claims and rows of one job in one transaction. Whoever moved the cursor first has won; the other reads
again. Long backlogs are walked in a thread.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from cron import jobbook, ledger
from cron.alerts import Alerts, Ending
from cron.assignments import Assignment
from cron.clockwatch import ClockWatch
from cron.deciding import Claims, Decided, Planned, assignments_of, decide, write_plan
from cron.definitions import definition_of, schedule_of
from cron.engine import Engine
from cron.model import JobId
from cron.outcomes import OccurrenceKind, Outcome
from cron.runner import Runner
from cron.setback import set_back_jobs
from cron.span import Pause, Plan, PlannedRow
from state.clock import Monotonic, Now, Sleep
from state.database import Database
from state.errors import StateError

log = logging.getLogger(__name__)

CHUNK = 100  # jobs that are planned, and written, in one go
STARTED = 1_000  # runs that are claimed before the first of them is started: claims are quick, runs are not
ABREAST = 50  # runs that are started between two looks at the event loop
WATCH_EVERY = 2.0  # seconds between two looks at the clocks
MISSED = timedelta(minutes=1)  # a jump of that much is a sleep: what was due in it was missed
LEAP = timedelta(days=1)  # a jump of more than that may be a wrong clock: each job runs once at most
BEHIND = timedelta(minutes=5)  # how far a cursor may lie in the future before the clock was surely wrong


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
        self._sleep = sleep
        self._engine = Engine(self.wake, now)
        self._clocks = ClockWatch(now, monotonic)
        self._jobs: dict[JobId, Planned] = {}
        self._woken: set[JobId] = set()
        self._not_stored: set[JobId] = set()  # the database was in trouble: they are planned again soon
        self._is_woken = asyncio.Event()
        self._passing = asyncio.Lock()
        self._missed_until = now()
        self._leapt_until: datetime | None = None

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

    async def trigger(
        self, job_id: JobId, *, replayed: datetime | None = None, deliver: Sequence[str] | None = None
    ) -> str:
        """Claim a run that nobody scheduled and start it; returns its id. It moves no cursor.

        It is due now, or is the occurrence `replayed` once more. `deliver`: other targets than the job's.
        """
        planned = self._jobs[job_id]
        at = self._now()
        kind = OccurrenceKind.MANUAL if replayed is None else OccurrenceKind.REPLAY
        due = at if replayed is None else replayed
        run_id = await self._db.write(
            partial(
                ledger.claim,
                job_id=job_id,
                kind=kind,
                due=due,
                incarnation=self._incarnation,
                definition=definition_of(planned.job),
                at=at,
                deliver=deliver,
            )
        )
        assert run_id is not None, "such occurrences are told apart by n"
        self._runner.start(
            Assignment(
                job=planned.job,
                job_id=job_id,
                run_id=run_id,
                kind=kind,
                due=due,
                wait_for=frozenset(self._runner.composing(job_id)),
                deliver=None if deliver is None else tuple(deliver),
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

    async def reread(self, job_id: JobId) -> None:
        """Look at what the database remembers of a job: somebody else has written there."""
        async with self._passing:
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
            self._look_at_clocks()
            await self._cover(job_ids)

    # --- one pass -------------------------------------------------------------------------------------

    async def _cover(self, job_ids: Collection[JobId]) -> None:
        jobs = [self._jobs[job_id] for job_id in job_ids if job_id in self._jobs]
        missed: list[Assignment] = []
        live: list[Assignment] = []
        for first in range(0, len(jobs), CHUNK):
            for assignment in await self._cover_chunk(jobs[first : first + CHUNK]):
                (missed if assignment.is_missed else live).append(assignment)
            if len(live) >= STARTED:
                await self._start(live)
                live = []
        await self._start(live)
        await self._start(sorted(missed, key=lambda assignment: assignment.due))

    async def _start(self, assignments: Sequence[Assignment]) -> None:
        for first in range(0, len(assignments), ABREAST):
            for assignment in assignments[first : first + ABREAST]:
                self._runner.start(assignment)
            await self._sleep(0)

    async def _cover_chunk(self, chunk: Sequence[Planned]) -> list[Assignment]:
        """Plan and write some jobs; return the runs that were claimed."""
        now = self._now()
        chunk = await self._follow_clock(chunk, now)
        known = await self._rows_beyond(chunk)
        plans = await asyncio.to_thread(self._plan_all, chunk, known, now)
        made = [(one, decided) for one, decided in zip(chunk, plans, strict=True) if decided is not None]
        assignments = await self._apply(made, now)
        self._engine.arm([(one.row.id, decided.upcoming) for one, decided in made], self._now())
        return assignments

    def _plan_all(
        self, chunk: Sequence[Planned], known: Mapping[JobId, frozenset[datetime]], now: datetime
    ) -> list[Decided | None]:
        return [self._plan_guarded(one, known.get(one.row.id, frozenset()), now) for one in chunk]

    def _plan_guarded(self, one: Planned, known: frozenset[datetime], now: datetime) -> Decided | None:
        try:
            return decide(one, known, now, missed_until=self._missed_until, leapt_until=self._leapt_until)
        except Exception:  # one job's bug is its own; it is planned again with its next wake-up
            log.exception("A job could not be planned.", extra={"action": "planning_failed", "job": one.job.name})
            return None

    async def _apply(self, decided: Sequence[tuple[Planned, Decided]], now: datetime) -> list[Assignment]:
        made = [(one, each.plan, each.late) for one, each in decided if each.plan is not None]
        made = [entry for entry in made if entry[1].rows or entry[1].due]
        if not made:
            return []
        written = await self._write_all([(one, plan) for one, plan, _ in made], now)
        assignments: list[Assignment] = []
        for (one, plan, late), claims in zip(made, written, strict=True):
            if isinstance(claims, Exception):
                # The other jobs go on; this one is planned again with its next wake-up.
                facts = {"action": "planning_failed", "job": one.job.name}
                log.error("What was planned for a job could not be stored.", exc_info=claims, extra=facts)
                if isinstance(claims, StateError):
                    self._not_stored.add(one.row.id)
            elif claims is None:
                await self._reread(one.row.id)
                self.wake(one.row.id)
            else:
                self._jobs[one.row.id] = replace(one, row=replace(one.row, cursor=plan.cursor))
                assignments += assignments_of(one, claims, late=late, missed_until=self._missed_until, at=now)
                await self._tell_skipped(one, claims.rows, now)
        return assignments

    async def _write_all(
        self, plans: Sequence[tuple[Planned, Plan]], at: datetime
    ) -> Sequence[Claims | Exception | None]:
        """Write the jobs in one function; if that fails, each in its own, so that only the guilty one is left out."""
        writing = self._db.write(
            lambda conn: [write_plan(conn, one, plan, incarnation=self._incarnation, at=at) for one, plan in plans]
        )
        (done,) = await asyncio.gather(writing, return_exceptions=True)
        if not isinstance(done, BaseException):
            return done
        if not isinstance(done, Exception):
            raise done
        if len(plans) == 1:
            return [done]
        return [(await self._write_all([each], at))[0] for each in plans]

    async def _tell_skipped(self, one: Planned, rows: Sequence[PlannedRow], at: datetime) -> None:
        """A missed occurrence counts as a failure; the other skips are what the job asked for."""
        for row in rows:
            log.info(
                "Occurrences were not run.",
                extra={"action": "occurrence_skipped", "job": one.job.name, "outcome": row.outcome, "count": row.count},
            )
            if row.outcome is Outcome.SKIPPED_LATE:
                due = row.due.astimezone(ZoneInfo(one.job.timezone))
                ending = Ending(
                    job=one.job, job_id=one.row.id, due=due, run_id=None, cause=row.error, is_in_streak=False
                )
                await self._alerts.ended(ending, at)

    async def _reread(self, job_id: JobId) -> None:
        row = await self._db.read(lambda conn: jobbook.job_by_id(conn, job_id))
        if row is not None and job_id in self._jobs:
            self._jobs[job_id] = replace(self._jobs[job_id], row=row)

    # --- sleep and clock changes ----------------------------------------------------------------------

    async def _watch_clock(self) -> None:
        """Look at the clocks now and then: timers are monotonic and would be late after a sleep."""
        while True:
            await self._sleep(WATCH_EVERY)
            for job_id in self._not_stored:
                self.wake(job_id)
            self._not_stored.clear()
            self._look_at_clocks()

    def _look_at_clocks(self) -> None:
        jumped = self._clocks.look()
        if not jumped:
            return
        log.warning(
            "The clock jumped; every job is looked at again.",
            extra={"action": "clock_jumped", "seconds": round(jumped.total_seconds(), 1)},
        )
        if jumped >= MISSED:
            self._missed_until = self._clocks.seen_at
        if jumped > LEAP:
            self._leapt_until = self._clocks.seen_at
            log.warning(
                "The clock leapt by more than a day: each job runs once at most.",
                extra={"action": "clock_leapt", "days": round(jumped / timedelta(days=1), 1)},
            )
        self._engine.nudge()
        self._woken |= set(self._jobs)
        self._is_woken.set()

    async def _follow_clock(self, chunk: Sequence[Planned], now: datetime) -> list[Planned]:
        """Take cursors back that lie far in the future: the clock was wrong, and is right now."""
        ahead = [one for one in chunk if one.row.cursor - now > BEHIND]
        if ahead:
            await self._db.write(lambda conn: set_back_jobs(conn, [(one.row, one.schedule) for one in ahead], now))
            for one in ahead:
                await self._reread(one.row.id)
                moved = self._jobs[one.row.id]
                if moved.row.anchor != one.row.anchor:
                    self._jobs[one.row.id] = replace(
                        moved, schedule=schedule_of(definition_of(one.job), moved.row.anchor)
                    )
            self._missed_until = min(self._missed_until, now)
            self._leapt_until = None
        return [self._jobs[one.row.id] for one in chunk if one.row.id in self._jobs]

    async def _rows_beyond(self, chunk: Sequence[Planned]) -> Mapping[JobId, frozenset[datetime]]:
        """Return what lies beyond the cursors of jobs whose clock was set back."""
        rows = [one.row for one in chunk if one.row.ahead_until is not None and one.row.cursor < one.row.ahead_until]
        if not rows:
            return {}
        return await self._db.read(lambda conn: {row.id: ledger.dues_after(conn, row.id, row.cursor) for row in rows})
