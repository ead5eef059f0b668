"""What becomes of every instant between the cursor and now: each is run, or has a row that says why not."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cron.model import CatchUp, Overlap
from cron.outcomes import Outcome
from cron.schedule import parse_schedule
from cron.span import WALKED, Pause, Plan, Policy, default_late, plan_span

BASE = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
HOURS = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def schedule(text: str, anchor: datetime = BASE):
    return parse_schedule([text], zone=ZoneInfo("UTC"), anchor=anchor)


def plan(text: str, cursor: str, now: str, *, missed_until: str | None = None, pause=None, **policy) -> Plan:
    return plan_span(
        schedule(text),
        Policy(**({"late": timedelta(hours=2)} | policy)),
        cursor=at(cursor),
        now=at(now),
        missed_until=at(missed_until or cursor),
        pause=pause,
    )


def shown(plan: Plan) -> list[tuple[str, str, int]]:
    return [(f"{row.due:%d %H:%M}", str(row.outcome), row.count) for row in plan.rows]


def test_one_due_occurrence_runs_and_the_next_is_known():
    made = plan("0 9 * * *", "2026-03-02T08:00", "2026-03-02T09:00:01")
    assert (made.due, made.rows, made.next) == ((at("2026-03-02T09:00"),), (), at("2026-03-03T09:00"))


def test_an_occurrence_noticed_within_late_still_runs():
    made = plan("0 9 * * *", "2026-03-02T08:00", "2026-03-02T10:59", late=2 * HOURS)
    assert made.due == (at("2026-03-02T09:00"),)


def test_an_occurrence_noticed_after_late_is_skipped_and_says_so():
    made = plan("0 9 * * *", "2026-03-02T08:00", "2026-03-02T11:01", late=2 * HOURS)
    assert (made.due, shown(made)) == ((), [("02 09:00", "skipped_late", 1)])


def test_what_was_missed_while_down_runs_once_the_newest_and_the_rest_share_a_row():
    made = plan("0 * * * *", "2026-03-02T08:00", "2026-03-02T20:30", missed_until="2026-03-02T20:30")
    assert made.due == (at("2026-03-02T20:00"),)
    assert shown(made) == [("02 09:00", "coalesced", 11)]
    assert made.rows[0].until == at("2026-03-02T19:00")


def test_the_newest_missed_occurrence_runs_whatever_its_lateness():
    made = plan("0 9 * * *", "2026-03-01T10:00", "2026-03-02T23:00", missed_until="2026-03-02T23:00", late=HOURS)
    assert made.due == (at("2026-03-02T09:00"),)


def test_catch_up_none_runs_nothing_that_was_missed():
    made = plan(
        "0 * * * *", "2026-03-02T08:00", "2026-03-02T11:30", missed_until="2026-03-02T11:30", catch_up=CatchUp.NONE
    )
    assert (made.due, shown(made)) == ((), [("02 09:00", "skipped_late", 3)])


def test_catch_up_all_runs_those_within_late_in_order():
    made = plan(
        "0 * * * *", "2026-03-02T08:00", "2026-03-02T12:30", missed_until="2026-03-02T12:30", catch_up=CatchUp.ALL
    )
    assert made.due == (at("2026-03-02T11:00"), at("2026-03-02T12:00"))
    assert shown(made) == [("02 09:00", "skipped_late", 2)]


def test_catch_up_all_runs_a_hundred_at_most():
    made = plan(
        "* * * * *", "2026-03-02T08:00", "2026-03-02T12:00", missed_until="2026-03-02T12:00",
        catch_up=CatchUp.ALL, late=24 * HOURS,
    )  # fmt: skip
    assert (len(made.due), shown(made)) == (100, [("02 08:01", "coalesced", 140)])


def test_a_missed_one_shot_runs_only_within_late():
    kept = plan("2026-03-02T09:00", "2026-03-02T08:00", "2026-03-02T10:30", missed_until="2026-03-02T10:30")
    lost = plan("2026-03-02T09:00", "2026-03-02T08:00", "2026-03-02T12:30", missed_until="2026-03-02T12:30")
    assert (kept.due, shown(lost)) == ((at("2026-03-02T09:00"),), [("02 09:00", "skipped_late", 1)])


def test_what_was_missed_gives_way_to_what_is_due_now():
    made = plan("0 * * * *", "2026-03-02T08:00", "2026-03-02T11:00", missed_until="2026-03-02T10:30")
    assert (made.due, shown(made)) == ((at("2026-03-02T11:00"),), [("02 09:00", "coalesced", 2)])


def test_occurrences_inside_a_pause_are_skipped_and_those_after_it_run():
    pause = Pause(since=at("2026-03-02T08:30"), until=at("2026-03-02T10:30"), by="kim")
    made = plan("0 * * * *", "2026-03-02T08:00", "2026-03-02T11:00", pause=pause, overlap=Overlap.ALLOW)
    assert (made.due, shown(made)) == ((at("2026-03-02T11:00"),), [("02 09:00", "skipped_paused", 2)])


def test_a_week_of_a_paused_one_second_job_is_one_row():
    pause = Pause(since=at("2026-03-02T08:00"), until=None, by="kim")
    made = plan("every 1s", "2026-03-02T08:00", "2026-03-09T08:00", pause=pause)
    assert (made.due, {row.outcome for row in made.rows}) == ((), {Outcome.SKIPPED_PAUSED})
    assert len(made.rows) <= 2


def test_a_backlog_beyond_counting_runs_its_newest():
    made = plan("every 1s", "2026-03-02T08:00", "2026-03-03T08:00", missed_until="2026-03-03T08:00")
    assert (made.due, shown(made)) == ((at("2026-03-03T08:00"),), [("02 08:00", "coalesced", WALKED)])


@pytest.mark.parametrize(
    ("text", "late"),
    [("every 10s", "0:01:00"), ("*/15 * * * *", "0:15:00"), ("0 * * * *", "1:00:00"), ("0 9 * * *", "2:00:00"),
     ("0 9 * * 1", "2:00:00"), ("2026-03-05T09:00", "1:00:00")],
)  # fmt: skip
def test_how_late_is_still_useful_follows_the_period(text: str, late: str):
    assert str(default_late(schedule(text), BASE)) == late


@settings(max_examples=200, deadline=None)
@given(
    text=st.sampled_from(["*/5 * * * *", "0 * * * *", "every 7m", "0 9 * * *", "every 90s"]),
    span=st.integers(1, 60 * 60 * 30),
    missed=st.integers(0, 60 * 60 * 30),
    late=st.integers(0, 60 * 60 * 3),
    catch_up=st.sampled_from(list(CatchUp)),
    overlap=st.sampled_from(list(Overlap)),
    paused=st.none() | st.tuples(st.integers(0, 60 * 60 * 10), st.none() | st.integers(1, 60 * 60 * 10)),
)
def test_every_instant_of_a_span_is_covered_exactly_once(text, span, missed, late, catch_up, overlap, paused):
    series, now = schedule(text), BASE + timedelta(seconds=span)
    pause = None
    if paused is not None:
        since = BASE + timedelta(seconds=paused[0])
        until = None if paused[1] is None else since + timedelta(seconds=paused[1])
        pause = Pause(since=since, until=until, by="kim")
    made = plan_span(
        series,
        Policy(late=timedelta(seconds=late), catch_up=catch_up, overlap=overlap),
        cursor=BASE,
        now=now,
        missed_until=BASE + timedelta(seconds=missed),
        pause=pause,
    )
    covered = list(made.due)
    for row in made.rows:
        inside = series.between(row.due - timedelta(microseconds=1), row.until or row.due, 10**6)
        assert len(inside) == row.count
        covered += inside
    assert sorted(covered) == series.between(BASE, now, 10**6)
