"""`/cron ...` typed in a chat: a few verbs for the people that an account's `allow` names."""

from collections.abc import Callable
from datetime import UTC, timedelta

from cron.control import Control, ControlError, unknown_job
from cron.model import Config
from cron.schedule import ScheduleError, parse_duration
from cron.views import trouble
from delivery.model import Inbound

USAGE = "`/cron list`, `plan`, `run JOB`, `pause JOB`, `resume JOB`, `snooze JOB 2h` or `why`"


class ChatCommands:
    """Carries out chat commands (`seeding.ports.Commands`)."""

    def __init__(self, *, control: Control, config: Callable[[], Config]) -> None:
        self._control = control
        self._config = config

    async def run(self, words: str, inbound: Inbound) -> str:
        """Do what the words say; the reply is one short text."""
        verb, _, rest = words.strip().partition(" ")
        try:
            return await self._do(verb.lower(), rest.strip(), f"{inbound.author.name} in {inbound.address.account}")
        except ControlError as error:
            return str(error)

    async def _do(self, verb: str, rest: str, by: str) -> str:
        control = self._control
        match verb:
            case "list" | "":
                return self._list()
            case "plan":
                return self._plan(rest)
            case "help":
                return f"I know {USAGE}."
            case "run":
                run = await control.trigger(rest)
                return f"Started **{rest}** as `{run}`."
            case "pause":
                await control.pause(rest, by=by)
                return f"Paused **{rest}**. `/cron resume {rest}` ends it."
            case "resume":
                await control.resume(rest)
                return f"**{rest}** goes on."
            case "snooze":
                job, _, length = rest.rpartition(" ")
                until = await control.snooze(job.strip(), _length(length), by=by)
                planned = control.planner.by_name(job.strip())
                zone = UTC if planned is None else planned.schedule.zone
                return f"**{job.strip()}** sleeps until {until.astimezone(zone):%Y-%m-%d %H:%M %Z}."
            case "why":
                return await self._why()
            case _:
                return f"I do not know {verb!r}. I know {USAGE}."

    def _list(self) -> str:
        lines = []
        for planned in self._control.planner.planned.values():
            following = planned.schedule.next_after(self._control.now())
            when = "never again" if following is None else f"{following.astimezone(planned.schedule.zone):%a %H:%M %Z}"
            state = " (paused)" if planned.row.pause is not None else ""
            lines.append(f"- **{planned.job.name}**{state}: {when}")
        return "\n".join(lines) or "There are no jobs."

    def _plan(self, job: str) -> str:
        """Say when a job (or every job) is due next, three times each."""
        control = self._control
        if job and control.planner.by_name(job) is None:
            raise ControlError(unknown_job(job, self._config()))
        lines = []
        for planned in control.planner.planned.values():
            if not job or planned.job.name == job:
                at = control.now()
                dues = planned.schedule.between(at, at + timedelta(days=3660), 3)
                said = ", ".join(f"{due.astimezone(planned.schedule.zone):%a %Y-%m-%d %H:%M %Z}" for due in dues)
                lines.append(f"- **{planned.job.name}**: {said or 'never again'}")
        return "\n".join(lines) or "There are no jobs."

    async def _why(self) -> str:
        """Say what went wrong lately, newest first."""
        rows = await self._control.recent_troubles()
        if not rows:
            return "Nothing went wrong lately."
        return "\n".join(f"- **{row['job']}**, due {row['due']}: {row['outcome']}, {trouble(row)}" for row in rows)


def _length(text: str) -> timedelta:
    try:
        length = parse_duration(text)
    except ScheduleError as error:
        raise ControlError(f"{text!r}: {error}") from error
    if length is None:
        raise ControlError(f"{text!r} is no length of time; write 30m, 2h or 1d.")
    return length
