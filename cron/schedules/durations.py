"""Lengths of time as people write them: 90s, 15 minutes, 1h30m."""

import re
from datetime import timedelta

from cron.schedules.errors import ScheduleError

_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_SPELLINGS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "wk", "wks", "week", "weeks"),
}
_UNIT_OF = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_WORD = "|".join(sorted(_UNIT_OF, key=len, reverse=True))
_PIECE = re.compile(rf"([0-9]{{1,9}})\s*({_WORD})(?![a-z])\s*(?:(?:,|and)\s*(?=[0-9]))?")
_LONGEST = timedelta(days=3660)


def parse_duration(text: str) -> timedelta | None:
    """Read a length such as `90s`, `2 hours` or `1h30m`; None if the text is no length.

    Raises ScheduleError for one that is over ten years.
    """
    words, total, at = text.strip().lower(), timedelta(), 0
    if not words:
        return None
    while at < len(words):
        match = _PIECE.match(words, at)
        if match is None:
            return None
        try:
            total += int(match[1]) * _UNITS[_UNIT_OF[match[2]]]
        except OverflowError:
            total = timedelta.max
        if total > _LONGEST:
            raise ScheduleError(f"{text.strip()} is too long; write ten years (3660d) at most")
        at = match.end()
    return total


def format_duration(length: timedelta) -> str:
    """Write whole seconds in the largest unit that divides them, at most days: 2h, 90s."""
    for unit in ("d", "h", "m"):
        if length and length % _UNITS[unit] == timedelta():
            return f"{length // _UNITS[unit]}{unit}"
    return f"{length // _UNITS['s']}s"


def is_unit(word: str) -> bool:
    """Whether a word names a unit of time, in any spelling."""
    return word.lower() in _UNIT_OF
