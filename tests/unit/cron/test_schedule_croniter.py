"""Random expressions in UTC, against croniter."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cron.schedule import parse_schedule

DAYS = ("SUN", "mon", "Tue", "WED", "thu", "Fri", "SAT")


def field(low: int, high: int, wraps: bool = True, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    spelled = number.map(lambda n: names[n - low] if names and n - low < len(names) else str(n))
    ends = st.tuples(number, number)
    ends = ends.filter(lambda pair: pair[0] != pair[1])  # croniter reads 3-3 as a whole round
    span = (ends if wraps else ends.map(sorted)).map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.tuples(ends.map(sorted), st.integers(1, high - low)).map(lambda s: f"{s[0][0]}-{s[0][1]}/{s[1]}")
    term = st.one_of(spelled, span, step)
    listed = st.lists(term, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), st.integers(1, high - low).map("*/{}".format), listed)


FIELDS = st.tuples(field(0, 59, wraps=False), field(0, 23), field(1, 31), field(1, 12), field(0, 6, names=DAYS))
INSTANTS = st.integers(946_684_800, 3_786_912_000).map(lambda s: datetime.fromtimestamp(s, UTC))


def is_day_rule_shared(day: str, weekday: str) -> bool:
    """Debian ANDs the days if one field begins with a star; croniter only if one is a bare star."""
    return day == "*" or weekday == "*" or not (day.startswith("*") or weekday.startswith("*"))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(FIELDS, INSTANTS)
def test_forwards_and_backwards_agree_with_croniter_in_utc(
    fields: tuple[str, str, str, str, str], asked: datetime
) -> None:
    assume(is_day_rule_shared(fields[2], fields[4]))
    expression = " ".join(fields)
    judge = croniter(expression, asked, max_years_between_matches=60)
    try:
        expected = [judge.get_next(datetime) for _ in range(3)]
    except ValueError:  # a day that no month has
        assume(False)
    schedule = parse_schedule(expression, zone=ZoneInfo("UTC"), anchor=asked)
    assert schedule.between(asked, expected[-1], 10) == expected
    newest = croniter(expression, asked, max_years_between_matches=60).get_prev(datetime)
    earlier = asked - timedelta(microseconds=1)
    assert schedule.latest_until(earlier, after=asked - timedelta(days=40_000)) == newest
    assert parse_schedule(schedule.text, zone=ZoneInfo("UTC"), anchor=asked) == schedule
