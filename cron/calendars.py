"""Days off in an .ics file, the form in which every calendar can be exported. Read with icalendar, an extra."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from cron.schedules.days import DaySpan

LARGEST: Final = 5_000_000  # bytes
_BEFORE: Final = timedelta(days=400)
_AFTER: Final = timedelta(days=5 * 366)
_DAY: Final = timedelta(days=1)


class CalendarError(ValueError):
    """The file cannot be used; the message is one sentence with the way out."""


def read_ics(path: Path) -> bytes:
    """Return the file's bytes. Raises CalendarError."""
    try:
        if path.stat().st_size > LARGEST:
            raise CalendarError(f"{path.name} is larger than {LARGEST // 1_000_000} MB: export fewer years")
        return path.read_bytes()
    except OSError as error:
        raise CalendarError(f"{path} cannot be read ({error.strerror}): name a file beside jobs.yaml") from error


def days_of_ics(data: bytes, name: str, *, zone: ZoneInfo, around: datetime) -> tuple[DaySpan, ...]:
    """Return the days that the events touch in `zone`; of repeated ones those of a year ago to five years ahead.

    Raises CalendarError.
    """
    try:
        from icalendar import Calendar
    except ImportError:
        raise CalendarError(f"{name} needs an extra: pip install 'hermes-cron[calendars]'") from None
    try:
        calendar = Calendar.from_ical(data)
        events = [event for event in calendar.walk("VEVENT") if _is_meant(event)]
        found = {span for event in events for span in _spans(event, zone, around.date())}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CalendarError(f"{name} is no calendar that can be read: {error}") from error
    if not found:
        raise CalendarError(f"{name} holds no events: export it again, or remove it here")
    return tuple(sorted(found, key=lambda span: (span.first, span.last, span.name)))


def _is_meant(event: Any) -> bool:
    return str(event.get("STATUS", "")).upper() != "CANCELLED" and event.get("DTSTART") is not None


def _spans(event: Any, zone: ZoneInfo, around: date) -> Iterator[DaySpan]:
    start = event.decoded("DTSTART")
    first, last = _day(start, zone), _last_day(event, start, zone)
    name = " ".join(str(event.get("SUMMARY", "")).split())[:80]
    length = last - first
    for day in _starts(event, start, zone, around):
        yield DaySpan(first=day, last=day + length, name=name)


def _last_day(event: Any, start: date | datetime, zone: ZoneInfo) -> date:
    """An event's end is exclusive."""
    end: date | datetime = start
    if event.get("DTEND") is not None:
        end = event.decoded("DTEND")
    elif event.get("DURATION") is not None:
        end = start + event.decoded("DURATION")
    if isinstance(end, datetime):
        return _day(end - timedelta(microseconds=1) if end != start else end, zone)
    return max(_day(start, zone), end - _DAY)


def _starts(event: Any, start: date | datetime, zone: ZoneInfo, around: date) -> Iterator[date]:
    rule = event.get("RRULE")
    if rule is None:
        yield _day(start, zone)
        return
    from dateutil.rrule import rrulestr

    # In naive wall time: a day off does not move with the clocks.
    naive = _naive(start, zone)
    text = rule.to_ical().decode().replace("Z", "")
    skipped = {_day(one.dt, zone) for one in _exceptions(event)}
    for at in rrulestr(text, dtstart=naive).between(
        datetime.combine(around - _BEFORE, naive.time()), datetime.combine(around + _AFTER, naive.time()), inc=True
    ):
        if at.date() not in skipped:
            yield at.date()


def _exceptions(event: Any) -> Iterator[Any]:
    given = event.get("EXDATE")
    for one in given if isinstance(given, list) else [given]:
        if one is not None:
            yield from one.dts


def _naive(at: date | datetime, zone: ZoneInfo) -> datetime:
    if not isinstance(at, datetime):
        return datetime.combine(at, datetime.min.time())
    return (at if at.tzinfo is None else at.astimezone(zone)).replace(tzinfo=None)


def _day(at: date | datetime, zone: ZoneInfo) -> date:
    return _naive(at, zone).date()
