"""What a person should hear about a schedule that is allowed but may not mean what they think."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from cron.schedules.describe import either_day
from cron.schedules.rules import CronRule, utc
from cron.schedules.series import Schedule
from cron.schedules.wallclock import ClockChange, changes_between, day_bounds

_STEPPED = (("minute", "hour", 60, "m"), ("hour", "day", 24, "h"))


def warnings_for(schedule: Schedule, now: datetime) -> list[str]:
    """Return one sentence for each trap that the schedule may have fallen into; most have none."""
    found = [
        warning
        for rule in schedule.rules
        if isinstance(rule, CronRule)
        for warning in _cron_warnings(rule, schedule, now)
    ]
    if (schedule.ends is not None or schedule.is_one_shot) and schedule.next_after(now) is None:
        found.append(f"{schedule.text} has no occurrence left after {_shown(utc(now), schedule.zone)}")
    return list(dict.fromkeys(found))


def clock_note(instant: datetime, zone: ZoneInfo) -> str:
    """Return "" or what the clocks of `zone` do on the local day of `instant`: clocks go back on this day."""
    day = instant.astimezone(zone).date()
    notes = [_change_in_words(change) for change in changes_between(zone, *day_bounds(zone, day))]
    return "; ".join(notes)


def _change_in_words(change: ClockChange) -> str:
    direction = "forward" if change.by.total_seconds() > 0 else "back"
    return f"clocks go {direction} on this day ({change.old:%H:%M} becomes {change.new:%H:%M})"


def _cron_warnings(rule: CronRule, schedule: Schedule, now: datetime) -> Iterator[str]:
    _, minute, hour, day, month, weekday = fields = rule.expression.steps.split()
    text = rule.text
    words = either_day(rule.expression.steps)
    if words is not None:
        joint = "only when both hold" if day.startswith("*") or weekday.startswith("*") else "when either holds"
        yield (
            f"{text} restricts the day of month and the weekday, and fires {joint}: {words[0]}, {words[1]}; "
            f"the next are {_next_five(rule, schedule, now)}"
        )
    if minute == "*" and "*" not in hour:
        yield f"{text} fires every minute of those hours; write 0 in the first field for once an hour"
    for value, (name, cycle, size, unit) in zip((minute, hour), _STEPPED, strict=True):
        step = value.removeprefix("*/")
        if value.startswith("*/") and step.isdigit() and size % int(step):
            yield (
                f"{text} counts its {name}s anew each {cycle}, so it is not every {step}{unit}; "
                f"write `every {step}{unit}` for that"
            )
    if len(fields) == 6 and rule.text.count(" ") == 5 and fields[0].startswith("*"):
        yield f"{text} has six fields, of which the first is seconds; leave it out to fire once a minute"
    if weekday == "*" and month == "*" and day.isdigit() and int(day) > 28:
        yield f"{text} skips the months without a {day}; write L for the last day of every month"


def _next_five(rule: CronRule, schedule: Schedule, now: datetime) -> str:
    shown: list[str] = []
    at = schedule.next_after(now)
    while at is not None and len(shown) < 5:
        shown.append(_shown(at, rule.zone))
        at = schedule.next_after(at)
    return ", ".join(shown)


def _shown(instant: datetime, zone: ZoneInfo) -> str:
    local = instant.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b} {local.year} {local:%H:%M}"
