"""APScheduler, and the only file that knows it. It wakes us at exact instants; it judges nothing.

It has one ApsJob, an alarm with our own trigger, which answers with the earliest instant that any job waits for:
aware, prepared outside the wake-up, never in the past. (One ApsJob for each of a thousand jobs that are due in the
same second kept the event loop for a tenth of a second.) Lateness, misfires and backlogs are the planner's business:
APScheduler's own rules for them are off.
"""

import heapq
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from apscheduler.executors.base import BaseExecutor
from apscheduler.job import Job as ApsJob
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from cron.model import JobId
from state.clock import Now

ALARM = "alarm"
MOMENT = timedelta(milliseconds=1)


class AlarmTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Answers with the earliest instant that is waited for. `clock` is the planner's, by which instants come."""

    def __init__(self, first: Callable[[], datetime | None], clock: Now) -> None:
        self._first = first
        self._clock = clock

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the earliest instant, or the next moment where that has passed; None if nothing is waited for.

        None, too, where it has passed by APScheduler's clock alone: it would ring again and again for nothing.
        """
        first = self._first()
        if first is None or first > now:
            return first
        return now + MOMENT if first <= self._clock() else None


class InlineExecutor(BaseExecutor):  # type: ignore[misc]
    """Calls on the event loop, at once: what is called only takes note. APScheduler's own would use a thread."""

    def submit_job(self, job: ApsJob, run_times: Sequence[datetime]) -> None:
        """Call the job's function."""
        job.func()

    def _do_submit_job(self, job: ApsJob, run_times: Sequence[datetime]) -> None:
        raise NotImplementedError("submit_job does all of it")


class Engine:
    """Calls `wake(job_id)` at each prepared instant, on the event loop; the call must return at once."""

    def __init__(self, wake: Callable[[JobId], None], now: Now) -> None:
        self._wake = wake
        self._now = now
        # We judge lateness ourselves, from the ledger: no wake-up may be dropped for being late.
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            executors={"default": InlineExecutor()},
            job_defaults={"misfire_grace_time": None, "coalesce": True},
        )
        self._instants: dict[JobId, tuple[datetime, ...]] = {}  # of each job, oldest first
        self._heads: list[tuple[datetime, JobId]] = []  # a heap; what no longer is a job's first is stale
        logging.getLogger("apscheduler").setLevel(logging.WARNING)

    @property
    def armed(self) -> Collection[JobId]:
        """The jobs that will be woken."""
        return self._instants.keys()

    def start(self) -> None:
        """Begin to wake. Needs a running event loop."""
        self._scheduler.start()
        self._set_alarm()

    def stop(self) -> None:
        """Wake nobody any more. Idempotent."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def arm(self, jobs: Iterable[tuple[JobId, Sequence[datetime]]], now: datetime) -> None:
        """Prepare the next instants of some jobs; none means that a job is not woken.

        A job whose first instant has passed by now (it was prepared a moment ago) is woken at once.
        """
        for job_id, instants in jobs:
            upcoming = tuple(instant for instant in instants if instant > now)
            if len(upcoming) < len(instants):
                self._wake(job_id)
            self._prepare(job_id, upcoming)
        self._set_alarm()

    def disarm(self, job_id: JobId) -> None:
        """Forget a job. Unknown ones are fine."""
        self._instants.pop(job_id, None)

    def nudge(self) -> None:
        """Look at the clock again: after a sleep or a step of the wall clock, timers are late."""
        if self._scheduler.running:
            self._scheduler.wakeup()

    def _prepare(self, job_id: JobId, instants: tuple[datetime, ...]) -> None:
        if not instants:
            self.disarm(job_id)
            return
        known = self._instants.get(job_id)
        self._instants[job_id] = instants
        if known is None or known[0] != instants[0]:
            heapq.heappush(self._heads, (instants[0], job_id))

    def _first(self) -> datetime | None:
        while self._heads:
            instant, job_id = self._heads[0]
            if self._instants.get(job_id, (None,))[0] == instant:
                return instant
            heapq.heappop(self._heads)
        return None

    def _ring(self) -> None:
        """Wake every job whose instant has come, and go on to its next one."""
        now = self._now()
        first = self._first()
        while first is not None and first <= now:
            _, job_id = heapq.heappop(self._heads)
            left = tuple(instant for instant in self._instants[job_id] if instant > now)
            del self._instants[job_id]
            self._prepare(job_id, left)
            self._wake(job_id)
            first = self._first()

    def _set_alarm(self) -> None:
        """Let APScheduler wait for the earliest instant, if it waits for another one."""
        if not self._scheduler.running:
            return
        first = self._first()
        alarm = self._scheduler.get_job(ALARM)
        if first is not None and (alarm is None or alarm.next_run_time != first):
            trigger = AlarmTrigger(self._first, self._now)
            self._scheduler.add_job(self._ring, trigger, id=ALARM, replace_existing=True)
