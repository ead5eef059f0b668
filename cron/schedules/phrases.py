"""Phrases such as `weekdays at 9am`: normalised here, turned into crontab expressions by hron.

hron (https://github.com/simpllyf/hron) reads a strict English and is used as a translator only; it never steps.
It wants 24-hour times, commas and one word order, so people's ways of writing the same thing are evened out first.
"""

import re
from collections.abc import Iterable
from datetime import time
from difflib import get_close_matches

from cron.schedules.errors import ScheduleError
from cron.schedules.times_of_day import PATTERN, parse_time

EXAMPLES = "five cron fields (0 9 * * 1-5), every 2h, weekdays at 9am, 2026-06-22T20:07 or in 30m"

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_OF = {
    spelling: day
    for day in _DAYS
    for spelling in (day, f"{day}s", day[:3], {"tuesday": "tues", "thursday": "thurs"}.get(day, day), day[:4])
}
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH_OF = {spelling: month[:3] for month in _MONTHS for spelling in (month, month[:3])} | {"sept": "sep"}
_ORDINALS = {"1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth", "5th": "fifth"}
_WHOLE_WEEK = {
    "daily": "every day",
    "every day": "every day",
    "everyday": "every day",
    "weekdays": "every weekday",
    "every weekday": "every weekday",
    "every weekdays": "every weekday",
    "workdays": "every weekday",
    "every workday": "every weekday",
    "weekends": "every weekend",
    "every weekend": "every weekend",
}
_WORDS = (
    *re.findall(
        r"\w+",
        "every each on the of at and to through in from last weekday weekdays weekend weekends workday workdays "
        "second seconds minute minutes hour hours day days week weeks month year hourly daily weekly monthly yearly "
        "noon midnight am pm",
    ),
    *_DAY_OF,
    *_MONTH_OF,
    *_ORDINALS,
    *_ORDINALS.values(),
)
_HINTS = (
    (r"hourly|every hour", "write every 1h, or @hourly for each full hour"),
    (r"weekly|every week|once a week", "write every monday at 09:00, every 1w or @weekly"),
    (r"monthly|every month|once a month", "write every month on the 1st at 09:00, or @monthly"),
    (
        r"(?:on )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d.*",
        "write every december 25 at 09:00, or once 2026-12-25T09:00",
    ),
    (r"yearly|annually|every year|once a year", "write every january 1 at 09:00, or @yearly"),
    (
        r"every (?:other|second|third|[0-9]+) ?(?:st|nd|rd|th)? ?(?:day|week|month|year|[a-z]+day)s?\b.*",
        "cron counts no days or weeks; write an interval with a start, such as every 14d from 2026-01-05T09:00",
    ),
    (
        r"every (?:[0-9]+ ?)?(?:s|m|h|sec|min|minute|hour|second)s? .*",
        "an interval runs round the clock; write a cron expression such as */15 9-16 * * 1-5",
    ),
)
_SEPARATOR = r"\s*(?:,\s*and\b|,|&|\band\b)\s*"
_TIMES_AT_END = re.compile(rf"(?P<days>.*?)[\s,]+(?P<times>{PATTERN}(?:{_SEPARATOR}{PATTERN})*)")
_AT = re.compile(r"(?P<days>.*?)\s*\bat\s+(?P<times>.+)")
_AT_FIRST = re.compile(rf"at\s+(?P<times>{PATTERN}(?:{_SEPARATOR}{PATTERN})*)\s+(?:on\s+)?(?P<days>\D.*)")
_OF_THE_MONTH = r"(?:of|in)\s+(?:the|every|each)\s+month"
_IN_MONTH = re.compile(
    rf"(?:(?:every|the|on)\s+)*(?P<what>.+?)\s+{_OF_THE_MONTH}"
    r"|(?:every month|monthly)(?:\s+on)?(?:\s+the)?\s+(?P<after>.+)"
)
_NTH_DAY = re.compile(rf"(?P<nth>first|second|third|fourth|fifth|last|{'|'.join(_ORDINALS)})\s+(?P<day>\w+)")
_DATES = re.compile(rf"(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?(?:{_SEPARATOR}(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?)*")
_IN_YEAR = re.compile(
    r"(?P<before>(?:every year|yearly|every)(?:\s+on)?\s+)?(?P<month>[a-z]+)\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?P<after>\s+every year)?"
)


def cron_texts(phrase: str) -> list[str]:
    """Return the crontab expressions, one or more, that a phrase means; raise ScheduleError if it means none."""
    words = " ".join(phrase.lower().split())
    if re.fullmatch(PATTERN, words):
        raise ScheduleError(f"{phrase.strip()} has no days; write every day at {words}", column=1)
    given, times = _split(words)
    days = _normal_days(given, phrase)
    if not times:
        raise ScheduleError(f"{phrase.strip()} has no time of day; write {words} at 09:00")
    return [_translate(f"{days} at {', '.join(at)}", phrase) for at in _by_minute(times)]


def _split(words: str) -> tuple[str, list[time]]:
    """Take the times of day off a phrase: what is left names the days."""
    match = _AT_FIRST.fullmatch(words) or _AT.fullmatch(words) or _TIMES_AT_END.fullmatch(words)
    if match is None:
        return words, []
    return match["days"].strip(" ,"), [parse_time(part) for part in re.split(_SEPARATOR, match["times"])]


def _by_minute(times: Iterable[time]) -> list[list[str]]:
    """Group times that one crontab expression can hold: those with the same minute."""
    groups: dict[int, list[str]] = {}
    for at in sorted(set(times)):
        groups.setdefault(at.minute, []).append(f"{at.hour:02d}:{at.minute:02d}")
    return list(groups.values())


def _normal_days(days: str, phrase: str) -> str:
    """Write the days as hron wants them."""
    if not days:
        raise ScheduleError(f"{phrase.strip()} has no days; write every day {phrase.strip()}", column=1)
    plain = re.sub(r"\beach\b", "every", days)
    plain = re.sub(r"^(?:on|every\s+on)\s+", "", plain)
    for form in (_WHOLE_WEEK.get, _weekdays, _month_days, _year_day):
        found = form(plain)
        if found is not None:
            return found
    raise _unknown(phrase)


def _weekdays(days: str) -> str | None:
    """Read a list of weekdays, ranges among them."""
    named: list[str] = []
    for part in re.split(_SEPARATOR, re.sub(r"\b(?:every|on)\s+", "", days)):
        first, *rest = re.split(r"\s*(?:-|–|\bto\b|\bthrough\b|\bthru\b)\s*", part)
        ends = [_DAY_OF.get(first), *(_DAY_OF.get(word) for word in rest)]
        if None in ends or len(ends) > 2:
            return None
        start, stop = _DAYS.index(str(ends[0])), _DAYS.index(str(ends[-1]))
        named += [_DAYS[(start + n) % 7] for n in range((stop - start) % 7 + 1)]
    return f"every {', '.join(sorted(set(named), key=_DAYS.index))}"


def _month_days(days: str) -> str | None:
    match = _IN_MONTH.fullmatch(days)
    if match is None:
        return None
    what = re.sub(r"^the\s+", "", match["what"] or match["after"])
    if what in ("last day", "last weekday", "last workday"):
        return f"every month on the {what.replace('workday', 'weekday')}"
    if what == "first day":
        return "every month on the 1st"
    if (nth := _NTH_DAY.fullmatch(what)) and nth["day"] in _DAY_OF:
        return f"every month on the {_ORDINALS.get(nth['nth'], nth['nth'])} {_DAY_OF[nth['day']]}"
    if _DATES.fullmatch(what):
        numbers = [int(digits) for digits in re.findall(r"\d+", what)]
        return f"every month on the {', '.join(_ordinal(number) for number in numbers)}"
    return None


def _year_day(days: str) -> str | None:
    match = _IN_YEAR.fullmatch(days)
    if match is None or match["month"] not in _MONTH_OF or not (match["before"] or match["after"]):
        return None
    return f"every year on {_MONTH_OF[match['month']]} {int(match['day'])}"


def _ordinal(number: int) -> str:
    if 11 <= number % 100 <= 13:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _translate(normal: str, phrase: str) -> str:
    from hron import HronError, Schedule  # 90 ms, and most schedules are no phrases

    try:
        return Schedule.parse(normal).to_cron()
    except HronError as error:
        raise ScheduleError(f"{phrase.strip()} cannot be read ({error}); write {EXAMPLES}") from error


def _unknown(phrase: str) -> ScheduleError:
    words = " ".join(phrase.lower().split())
    for pattern, hint in _HINTS:
        if re.fullmatch(pattern, words):
            return ScheduleError(f"{phrase.strip()} cannot be read; {hint}", column=1)
    for match in re.finditer(r"[a-z]+", phrase.lower()):
        word = match.group()
        if word in _WORDS or len(word) < 3:
            continue
        near = get_close_matches(word, _WORDS, n=1, cutoff=0.7)
        if near:
            return ScheduleError(f'"{word}" is not known; did you mean "{near[0]}"?', column=match.start() + 1)
        return ScheduleError(f'"{word}" is not known; write {EXAMPLES}', column=match.start() + 1)
    return ScheduleError(f"{phrase.strip()} cannot be read; write {EXAMPLES}", column=1)
