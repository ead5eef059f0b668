"""Slack's timestamps: text with six decimals, always; a number would lose digits. Pure."""

import re
from datetime import UTC, datetime, timedelta

_TS = re.compile(r"(\d{9,11})\.(\d{6})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_ts(text: object) -> bool:
    """Whether it is a timestamp as Slack writes it."""
    return isinstance(text, str) and _TS.fullmatch(text) is not None


def at_of(ts: str) -> datetime:
    """Return the instant of a timestamp. Raises ValueError."""
    found = _TS.fullmatch(ts)
    if found is None:
        raise ValueError("not a Slack timestamp")
    return _EPOCH + timedelta(seconds=int(found[1]), microseconds=int(found[2]))


def ts_of(at: datetime) -> str:
    """Return the timestamp of an instant."""
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def root_of(message: str | None, thread_ts: object) -> str | None:
    """Return the message that a message answers: `thread_ts`, only if it is not its own ts."""
    return thread_ts if isinstance(thread_ts, str) and thread_ts and thread_ts != message else None
