"""Times of day as people write them: 9am, 9:30 pm, 7:30, noon."""

import re
from datetime import time

from cron.schedules.errors import ScheduleError

PATTERN = r"(?:noon|midnight|[0-9]{1,2}(?::[0-9]{2})?\s*[ap]\.?m\b\.?|[0-9]{1,2}:[0-9]{2})"
_PARTS = re.compile(r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?\s*(?:(?P<half>[ap])\.?m\.?)?")
_NAMED = {"noon": time(12), "midnight": time(0)}


def parse_time(text: str) -> time:
    """Read one time of day; without am or pm it is on the 24-hour clock (7:30 is the morning). Raises ScheduleError."""
    word = text.strip().lower()
    if word in _NAMED:
        return _NAMED[word]
    match = _PARTS.fullmatch(word)
    if match is None:
        raise ScheduleError(f'"{text.strip()}" is no time of day; write 9am, 14:30, noon or midnight')
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"] is not None:
        if not 1 <= hour <= 12:
            raise ScheduleError(f'"{text.strip()}" is no time of day; with am or pm write an hour from 1 to 12')
        hour = hour % 12 + (12 if match["half"] == "p" else 0)
    if hour > 23 or minute > 59:
        raise ScheduleError(f'"{text.strip()}" is no time of day; write one from 00:00 to 23:59')
    return time(hour, minute)
