"""Single instants as people write them: ISO dates and times, with and without an offset."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cron.schedules.errors import ScheduleError
from cron.schedules.wallclock import ClockChange, changes_between

_ISO = re.compile(
    r"(?P<date>\d{4}-\d{1,2}-\d{1,2})"
    r"(?:(?:[Tt]|\s+)(?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?"
    r"\s*(?P<offset>[Zz]|[+-]\d{2}(?::?\d{2}(?::\d{2})?)?)?"
)
_STARTS_LIKE_A_DATE = re.compile(r"\d{4}-\d")
_MINUTE = timedelta(minutes=1)


def looks_like_an_instant(text: str) -> bool:
    """Whether a text begins as a date does."""
    return _STARTS_LIKE_A_DATE.match(text) is not None


def parse_instant(text: str, zone: ZoneInfo) -> datetime:
    """Read `2026-06-22T20:07`, in `zone` unless it has an offset; a date alone is its local midnight.

    Returns an aware instant in UTC; of two (clocks go back) the first. Raises ScheduleError, for a wall time
    that the zone skips with both neighbouring valid times.
    """
    match = _ISO.fullmatch(text.strip())
    if match is None or (match["time"] is None and match["offset"] is not None):
        raise ScheduleError(
            f"{text} is no date and time; write 2026-06-22T20:07, 2026-06-22T20:07-04:00 or 2026-06-22", column=1
        )
    wall = _wall(match, text)
    if match["offset"] is None:
        return instant_of(wall, zone)
    try:
        offset = "+00:00" if match["offset"] in "Zz" else match["offset"]
        return datetime.fromisoformat(wall.isoformat() + offset).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(
            f"{match['offset']} is no offset from UTC; write Z or one such as +02:00", column=match.start("offset") + 1
        ) from error


def _wall(match: re.Match[str], text: str) -> datetime:
    year, month, day = (int(part) for part in match["date"].split("-"))
    try:
        the_day = date(year, month, day)
    except ValueError as error:
        raise ScheduleError(f"{match['date']} is not in the calendar; write a date that is", column=1) from error
    try:
        clock = time.fromisoformat(_padded(match["time"] or "00:00"))
    except ValueError as error:
        raise ScheduleError(
            f"{match['time']} is no time of day; write one from 00:00 to 23:59", column=match.start("time") + 1
        ) from error
    if not 1000 <= year < 9000:
        raise ScheduleError(f"{text} is too far away; write a year from 1000 to 8999", column=1)
    return datetime.combine(the_day, clock)


def _padded(clock: str) -> str:
    return f"0{clock}" if clock[1] == ":" else clock


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the (first) instant at which a zone's clock shows a naive wall time; refuse one that it skips."""
    skipped = gap_at(wall, zone)
    if skipped is not None:
        before, after = skipped.old - _MINUTE, skipped.new
        raise ScheduleError(
            f"{_short_iso(wall)} does not exist in {zone.key}, where clocks go forward then; "
            f"write {_short_iso(before)} or {_short_iso(after)}"
        )
    return wall.replace(tzinfo=zone).astimezone(UTC)


def first_valid(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the (first) instant at which a zone's clock shows a naive wall time; of a skipped one, the gap's end."""
    skipped = gap_at(wall, zone)
    return skipped.at if skipped is not None else wall.replace(tzinfo=zone).astimezone(UTC)


def gap_at(wall: datetime, zone: ZoneInfo) -> ClockChange | None:
    """Return the clock change that skips a naive wall time, if one does."""
    near = wall.replace(tzinfo=UTC)
    day = timedelta(days=2)  # offsets are under a day, a skipped day is one
    for change in changes_between(zone, near - day, near + day):
        if change.old <= wall < change.new:
            return change
    return None


def _short_iso(wall: datetime) -> str:
    return wall.isoformat(timespec="seconds" if wall.second else "minutes")
