"""Check schedules through every clock change of every zone, against a walk through every minute.

    python bench/zones.py [--years 2020-2029] [--expressions 40] [--seed 1]

Prints what was compared and every difference; exits 1 if there is one. Ten years take some minutes.
Also times the questions that a planner asks.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from oracles.cron_walk import DAY, MINUTE, Change, Matcher, Walk, distinct_changes, whole_minutes  # noqa: E402

from cron.schedule import RepeatedHour, ScheduleError, parse_schedule  # noqa: E402

FIXED = ("30 2 * * *", "0 0 * * *", "0 2,3 * * *", "15,45 1-3 * * *", "30 0,23 * * 0,6", "59 0-23 * * *", "0 0 L * *")
RHYTHMS = ("* * * * *", "*/20 * * * *", "7 * * * *", "*/30 1-3 * * *", "5 */2 * * SUN,SAT", "*/7 0,23 * * *")
TIMED = (
    ("*/5 * * * *", "UTC"),
    ("*/5 * * * *", "America/New_York"),
    ("0 9 * * mon-fri", "America/New_York"),
    ("30 2 1 * *", "America/New_York"),
    ("0 0 29 2 *", "America/New_York"),
    ("every 15m", "UTC"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", default="2020-2029", help="first and last year")
    parser.add_argument("--expressions", type=int, default=20, help="random expressions for each change")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    first, last = (int(year) for year in given.years.split("-"))
    changes = distinct_changes(datetime(first, 1, 1, tzinfo=UTC), datetime(last + 1, 1, 1, tzinfo=UTC))
    walkable = [change for change in changes if whole_minutes(change)]
    print(f"{len(changes)} distinct clock changes from {first} to {last}, {len(walkable)} of them at whole minutes")
    rng = random.Random(given.seed)
    compared, wrong = 0, 0
    for change in walkable:
        for line in differences(change, [*FIXED, *RHYTHMS, *randoms(rng, given.expressions)]):
            compared += 1
            if line:
                wrong += 1
                print(line)
    print(f"{compared} series compared, {wrong} differ")
    time_questions()
    return 1 if wrong else 0


def differences(change: Change, expressions: list[str]) -> Iterator[str]:
    """Yield for each comparison "" or what differs."""
    since, until = change.at - DAY, change.at + DAY
    walk = Walk.of(change.zone, since, until)
    for expression in expressions:
        matcher = Matcher(expression)
        for repeated_hour in RepeatedHour:
            expected = walk.occurrences(matcher, both=repeated_hour is RepeatedHour.BOTH)
            try:
                schedule = parse_schedule(expression, zone=change.zone, anchor=since, repeated_hour=repeated_hour)
            except ScheduleError as error:
                yield f"{change.zone.key} {expression}: {error.message}" if expected else ""
                continue
            forwards, backwards = schedule.between(since, until, 100_000), list[datetime]()
            at = schedule.latest_until(until, after=since)
            while at is not None:
                backwards.insert(0, at)
                at = schedule.latest_until(at - MINUTE / 60, after=since)
            same = forwards == expected == backwards
            yield "" if same else f"{change.zone.key} {change.at:%Y-%m-%d %H:%M}Z {expression} ({repeated_hour})"


def randoms(rng: random.Random, count: int) -> list[str]:
    return [
        " ".join(_field(rng, low, high) for low, high in ((0, 59), (0, 23), (1, 31))) + f" * {_field(rng, 0, 7)}"
        for _ in range(count)
    ]


def _field(rng: random.Random, low: int, high: int) -> str:
    if rng.random() < 0.3:
        return rng.choice(["*", f"*/{rng.randint(2, 7)}"])
    terms = []
    for _ in range(rng.randint(1, 3)):
        first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
        terms.append(rng.choice([str(first), f"{first}-{last}", f"{first}-{last}/{rng.randint(1, 7)}"]))
    return ",".join(terms)


def time_questions() -> None:
    for text, name in TIMED:
        print(f"{text:18} {name:18} {timings(text, ZoneInfo(name))}")


def timings(text: str, zone: ZoneInfo) -> str:
    """Return microseconds for one step forwards, one backwards from five years later, and for parsing."""
    at = anchor = datetime(2026, 1, 1, 12, tzinfo=UTC)
    late = anchor + timedelta(days=5 * 365)
    schedule = parse_schedule(text, zone=zone, anchor=anchor)

    def step() -> None:
        nonlocal at
        at = schedule.next_after(at) or anchor
        if at.year > 2060:
            at = anchor

    steps = _microseconds(step)
    back = _microseconds(lambda: schedule.latest_until(late, after=anchor))
    parse = _microseconds(lambda: parse_schedule(text, zone=zone, anchor=anchor))
    return f"next {steps:6.1f} us  latest {back:6.1f} us  parse {parse:6.1f} us"


def _microseconds(action: Callable[[], object]) -> float:
    count = 500
    for _ in range(count):
        action()
    started = time.perf_counter()
    for _ in range(count):
        action()
    return (time.perf_counter() - started) / count * 1e6


if __name__ == "__main__":
    raise SystemExit(main())
