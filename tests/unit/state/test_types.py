"""Instants and JSON survive the way into a column and back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, MetaData, Table, create_engine, insert, select

from state.types import Instant, JsonText, from_micros, to_micros

table = Table("t", MetaData(), Column("at", Instant), Column("data", JsonText))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES))  # noqa: DTZ001
def test_an_instant_is_the_same_instant_again_to_the_microsecond(at: datetime) -> None:
    assert from_micros(to_micros(at)) == at
    assert from_micros(to_micros(at)).tzinfo is UTC


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=ZONES)))  # noqa: DTZ001
def test_instants_sort_as_numbers_as_they_do_as_times(instants: list[datetime]) -> None:
    assert [from_micros(n) for n in sorted(map(to_micros, instants))] == sorted(instants)


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        to_micros(datetime(2026, 12, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "value",
    [None, {"name": "über 東京 🚀", "n": [1, 2.5, None, True]}, [], "", 0, {"half an emoji": "\ud83d"}],
)
def test_json_comes_back_as_it_went_in(value: object) -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), {"data": value})
        assert connection.execute(select(table.c.data)).scalar_one() == value
    engine.dispose()


def test_json_is_stored_as_people_read_it() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), {"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "data": {"a": "ü"}})
        assert connection.exec_driver_sql("SELECT at, data FROM t").one() == (1_000_000, '{"a":"ü"}')
    engine.dispose()
