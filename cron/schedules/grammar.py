"""One text to its rules: crontab expressions, @names, intervals, phrases, instants, each with an optional zone."""

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSimError

from cron.schedules.durations import format_duration, is_unit, parse_duration
from cron.schedules.errors import ScheduleError
from cron.schedules.fields import parse_cron
from cron.schedules.instants import first_valid, looks_like_an_instant, parse_instant
from cron.schedules.phrases import EXAMPLES, cron_texts
from cron.schedules.rules import CronRule, IntervalRule, OnceRule, RepeatedHour, Rule
from cron.schedules.times_of_day import parse_time

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LONGEST_TEXT = 1000
_ZONED = re.compile(r"(?:CRON_TZ|TZ)\s*=\s*(?P<zone>\S*)\s*", re.IGNORECASE)
_CRON_START = re.compile(r"[0-9*?,/\-]+")
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a text alone does not say. `anchor` (UTC): where intervals and `in` count from.

    `anchor_counts`: the anchor itself is the interval's first occurrence (a written start), else one period later.
    """

    zone: ZoneInfo
    anchor: datetime
    repeated_hour: RepeatedHour
    read_at: datetime
    anchor_counts: bool = False


def parse_text(text: str, context: Context) -> list[Rule]:
    """Return the rules of one schedule text, in the zone that it names or the context's; raise ScheduleError."""
    if len(text) > _LONGEST_TEXT:
        raise ScheduleError(f"a schedule of {len(text)} characters is too long; write several in a list")
    shift = len(text) - len(text.lstrip())
    body = text.strip()
    try:
        zoned = _ZONED.match(body)
        if zoned is not None:
            context = replace(context, zone=_zone(zoned["zone"], zoned.start("zone") + 1))
            shift += zoned.end()
            body = body[zoned.end() :]
        return _parse_body(body, context)
    except ScheduleError as error:
        raise error.placed_in(text, shift) from error.__cause__


def zone_named(name: str) -> ZoneInfo:
    """Return an IANA zone; raise ScheduleError with the nearest name that exists."""
    return _zone(name, None)


def _zone(name: str, column: int | None) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        near = get_close_matches(name, sorted(available_timezones()), n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else "write one such as Europe/Berlin"
        raise ScheduleError(f'"{name}" is no IANA time zone; {hint}', column=column) from error


def _parse_body(body: str, context: Context) -> list[Rule]:
    words = body.lower().split()
    if not words:
        raise ScheduleError(f"the schedule is empty; write {EXAMPLES}")
    if words[0].startswith("@"):
        return [_cron(_alias(body), context)]
    if looks_like_an_instant(body):
        at = parse_instant(body, context.zone)
        return [OnceRule(text=at.astimezone(context.zone).isoformat(), zone=context.zone, at=at)]
    if words[0] == "in":
        return [_once_in(body, context)]
    if words[0] == "every" and (interval := _interval(body, context)) is not None:
        return [interval]
    if _looks_like_cron(words):
        return [_cron(body, context)]
    if parse_duration(body) is not None:
        raise ScheduleError(f"{body} alone can mean two things; write every {body} or in {body}", column=1)
    return [_cron(text, context) for text in cron_texts(body)]


def _alias(body: str) -> str:
    name = body.strip().lower()
    if name in ALIASES:
        return ALIASES[name]
    if name == "@reboot":
        raise ScheduleError(
            "@reboot names no time, and a restart runs nothing anew; write a time such as @daily, "
            "or call `hermes-cron trigger JOB` where the machine starts",
            column=1,
        )
    near = get_close_matches(name, ALIASES, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"write one of {', '.join(ALIASES)}"
    raise ScheduleError(f'"{body}" is not known; {hint}', column=1)


def _looks_like_cron(words: list[str]) -> bool:
    return _CRON_START.fullmatch(words[0]) is not None or any("*" in word or "?" in word for word in words)


def _cron(text: str, context: Context) -> CronRule:
    expression = parse_cron(text)
    rule = CronRule(expression=expression, zone=context.zone, repeated_hour=context.repeated_hour)
    if not _ever_fires(rule, context.anchor):
        raise ScheduleError(
            f"{text.strip()} never fires: no day has such a date or time in {context.zone.key}; "
            "write a day that exists (L is the last day of the month)",
        )
    return rule


def _ever_fires(rule: CronRule, instant: datetime) -> bool:
    _, _, _, day, month, weekday = rule.expression.steps.split()
    if (day, month) == ("*", "*") and "#" not in weekday:
        return True  # no step is needed to see that
    try:
        return rule.next_after(instant) is not None
    except CronSimError:  # the fields are checked already: all that it still refuses is a day that no month has
        return False


def _once_in(body: str, context: Context) -> OnceRule:
    given = body.strip()[2:].strip()
    length = parse_duration(given)
    if length is None or not length:
        raise ScheduleError(f"{body.strip()} is no length of time; write in 30m, in 2h or in 1d", column=1)
    return OnceRule(text=f"in {format_duration(length)}", zone=context.zone, at=context.read_at + length)


def _interval(body: str, context: Context) -> IntervalRule | None:
    """Read `every 2h` and `every 2h from 09:00`; None if what follows `every` is no length of time."""
    given, *start = re.split(r"\s+from\s+", body.strip()[5:].strip(), maxsplit=1, flags=re.IGNORECASE)
    if is_unit(given) and given.lower()[0] in "smh":
        given = f"1 {given}"  # every hour; but "every day" wants a time of day
    period = _fraction_or_length(given)
    if period is None:
        return None
    if period < _SECOND:
        raise ScheduleError(f"every {given} is shorter than the shortest interval; write every 1s or longer", column=7)
    text, anchor, counts = f"every {format_duration(period)}", context.anchor, context.anchor_counts
    if start:
        anchor, counts = _interval_start(start[0], context), True
        text = f"{text} from {_tidy(start[0])}"
    return IntervalRule(text=text, zone=context.zone, anchor=anchor, period=period, first=0 if counts else 1)


def _fraction_or_length(given: str) -> timedelta | None:
    fraction = re.fullmatch(r"0*(\d*)\.(\d+)\s*([a-z]+)|([0-9]+)\s*(ms|milliseconds?|us)", given.lower())
    if fraction is None:
        return parse_duration(given)
    if fraction[4] is not None or (fraction[1] == "" and fraction[3].startswith("s")):
        return timedelta()
    raise ScheduleError(f"every {given} has a fraction; write whole numbers, such as 90s or 1h30m", column=7)


def _interval_start(given: str, context: Context) -> datetime:
    if looks_like_an_instant(given):
        return parse_instant(given, context.zone)
    if re.search(r"\bto\b|\buntil\b", given):
        raise ScheduleError(
            "an interval has no hours between which it runs; write a cron expression such as */30 9-16 * * *"
        )
    today = context.anchor.astimezone(context.zone).date()
    return first_valid(datetime.combine(today, parse_time(given)), context.zone)


def _tidy(start: str) -> str:
    return " ".join(start.split()) if looks_like_an_instant(start) else f"{parse_time(start):%H:%M}"
