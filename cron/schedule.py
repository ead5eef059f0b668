"""When jobs are due: the pure core of time, without clock, log or file. Its parts are in `cron.schedules`.

`parse_schedule` reads what people write; a `Schedule` answers with exact instants in UTC; docs/schedules.md has
every form and the rules for days on which clocks change.
"""

from cron.schedules.advice import clock_note, warnings_for
from cron.schedules.durations import format_duration, parse_duration
from cron.schedules.errors import ScheduleError
from cron.schedules.grammar import zone_named
from cron.schedules.instants import parse_instant
from cron.schedules.jitter import jitter_for
from cron.schedules.rules import RepeatedHour, ScheduleKind
from cron.schedules.series import Schedule, parse_schedule

__all__ = [
    "RepeatedHour",
    "Schedule",
    "ScheduleError",
    "ScheduleKind",
    "clock_note",
    "format_duration",
    "jitter_for",
    "parse_duration",
    "parse_instant",
    "parse_schedule",
    "warnings_for",
    "zone_named",
]
