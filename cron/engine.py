"""APScheduler, and the only file that knows it. It wakes us at exact instants; it judges nothing.

Each job has one ApsJob with our own trigger, which holds instants that were prepared outside the wake-up and
never answers with one in the past. Lateness, misfires and backlogs are the planner's business: APScheduler's
own rules for them are off.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

from apscheduler.job import Job as ApsJob
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from cron.model import JobId


class PreparedTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Answers with instants that were handed to it, oldest first, aware and in UTC."""

    def __init__(self, instants: Sequence[datetime]) -> None:
        self._instants = sorted(instants)

    def prepare(self, instants: Sequence[datetime]) -> None:
        """Replace what is prepared."""
        self._instants = sorted(instants)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """Return the first prepared instant after the previous one that does not lie in the past; else None."""
        while self._instants:
            first = self._instants[0]
            if (previous_fire_time is not None and first <= previous_fire_time) or first < now:
                self._instants.pop(0)
            else:
                return first
        return None


class Engine:
    """Calls `wake(job_id)` at each prepared instant, on the event loop; the call must return at once."""

    def __init__(self, wake: Callable[[JobId], None]) -> None:
        self._wake = wake
        # We judge lateness ourselves, from the ledger: no wake-up may be dropped for being late.
        self._scheduler = AsyncIOScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1_000_000}
        )
        self._armed: dict[JobId, tuple[PreparedTrigger, ApsJob]] = {}
        # Its own lines say "Added job" for each of ten thousand jobs.
        logging.getLogger("apscheduler").setLevel(logging.WARNING)

    @property
    def armed(self) -> Collection[JobId]:
        """The jobs that will be woken."""
        return self._armed.keys()

    def start(self) -> None:
        """Begin to wake. Needs a running event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """Wake nobody any more. Idempotent."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def arm(self, job_id: JobId, instants: Sequence[datetime], now: datetime) -> None:
        """Prepare a job's next instants; none means that it is not woken."""
        armed = self._armed.get(job_id)
        upcoming = [instant for instant in instants if instant > now]
        if armed is not None and upcoming and self._is_kept(armed, upcoming[0]):
            armed[0].prepare(upcoming)
            return
        self.disarm(job_id)
        if upcoming:
            trigger = PreparedTrigger(upcoming)
            aps_job = self._scheduler.add_job(self._wake, trigger, args=[job_id], id=job_id, replace_existing=True)
            self._armed[job_id] = trigger, aps_job

    def disarm(self, job_id: JobId) -> None:
        """Forget a job. Unknown ones are fine."""
        armed = self._armed.pop(job_id, None)
        if armed is not None and self._scheduler.get_job(job_id) is not None:
            self._scheduler.remove_job(job_id)

    def nudge(self) -> None:
        """Look at the clock again: after a sleep or a step of the wall clock, timers are late."""
        if self._scheduler.running:
            self._scheduler.wakeup()

    @staticmethod
    def _is_kept(armed: tuple[PreparedTrigger, ApsJob], first: datetime) -> bool:
        """Tell whether APScheduler already waits for this very instant."""
        return bool(getattr(armed[1], "next_run_time", None) == first)
