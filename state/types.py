"""How instants and JSON stand in a column, the same on every database.

`Instant` is a BIGINT of microseconds since 1970-01-01T00:00:00Z: it sorts, compares and subtracts as a
number. `JsonText` is JSON as readable text, in which letters of every script stay what they are.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(at: datetime) -> int:
    """Return an aware datetime as microseconds since the epoch; a naive one is a ValueError."""
    if at.tzinfo is None:
        raise ValueError(f"an instant needs a time zone: {at.isoformat()} has none; give an aware datetime")
    return (at - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds since the epoch as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def to_json(value: Any) -> str:
    """Return compact JSON in readable letters; half a surrogate pair, as platforms send it, is escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


class Instant(TypeDecorator[datetime]):
    """An aware datetime, stored as BIGINT microseconds since the epoch, read back in UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else to_micros(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else from_micros(value)


class JsonText(TypeDecorator[Any]):
    """What JSON can say, stored as compact text (not ASCII-escaped); None is NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return to_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)
