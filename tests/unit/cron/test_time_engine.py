"""The wake-ups and the places: nothing that is waited for is slept through, nobody waits for ever."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from cron.clockwatch import ClockWatch
from cron.engine import MOMENT, AlarmTrigger, Engine
from cron.model import JobId
from cron.places import Places

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def rung(at: datetime, first: datetime | None, clock: datetime | None = None) -> datetime | None:
    return AlarmTrigger(lambda: first, lambda: clock or at).get_next_fire_time(None, at)


@pytest.mark.parametrize(
    ("first", "clock", "expected"),
    [
        (None, None, None),
        (NOON + SECOND, None, NOON + SECOND),
        (NOON - SECOND, None, NOON + MOMENT),  # never in the past
        (NOON, None, NOON + MOMENT),
        (NOON - SECOND, NOON - 2 * SECOND, None),  # only one of two clocks says that it has come
    ],
)
def test_the_alarm_is_set_to_the_earliest_instant_and_never_to_the_past(first, clock, expected):
    assert rung(NOON, first, clock) == expected


def test_an_instant_that_passed_while_it_was_prepared_wakes_its_job_at_once():
    woken: list[str] = []
    engine = Engine(woken.append, lambda: NOON)
    engine.arm([(JobId("a"), [NOON, NOON + SECOND]), (JobId("b"), [NOON + SECOND])], NOON)
    assert (woken, sorted(engine.armed)) == (["a"], ["a", "b"])


async def test_jobs_are_woken_in_the_order_of_their_instants_and_a_disarmed_one_is_not():
    woken: list[str] = []
    clock = [NOON]
    engine = Engine(woken.append, lambda: clock[0])
    late = [(JobId(name), [NOON + n * SECOND, NOON + 60 * SECOND]) for name, n in (("c", 3), ("a", 1), ("b", 2))]
    engine.arm([*late, (JobId("d"), [NOON + SECOND])], NOON)
    engine.disarm(JobId("d"))
    clock[0] = NOON + 5 * SECOND
    engine._ring()
    engine._ring()
    assert woken == ["a", "b", "c"]
    clock[0] = NOON + 60 * SECOND
    engine._ring()
    assert (len(woken), list(engine.armed)) == (6, [])


async def test_a_job_is_woken_on_the_real_clock():
    woken: asyncio.Queue[str] = asyncio.Queue()
    engine = Engine(woken.put_nowait, lambda: datetime.now(UTC))
    engine.start()
    now = datetime.now(UTC)
    engine.arm([(JobId("later"), [now + timedelta(days=40)]), (JobId("soon"), [now + timedelta(milliseconds=30)])], now)
    assert await asyncio.wait_for(woken.get(), 10) == "soon"
    assert list(engine.armed) == ["later"]
    engine.stop()


def test_a_clock_that_is_kept_in_step_has_not_jumped_and_one_that_was_set_has():
    wall, steady = [NOON], [0.0]
    clocks = ClockWatch(lambda: wall[0], lambda: steady[0])
    for by, passed, expected in ((10, 10, 0), (11, 10, 0), (5, 8, -3), (3600, 2, 3598), (2, 2, 0)):
        wall[0] += by * SECOND
        steady[0] += passed
        assert clocks.look() == expected * SECOND


async def test_places_are_given_in_order_and_a_waiter_that_leaves_takes_none():
    places, order = Places(1), []

    async def take(name: str) -> None:
        async with places:
            order.append(name)
            await asyncio.sleep(0)

    await places.__aenter__()
    waiting = [asyncio.create_task(take(name)) for name in "abc"]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await places.__aexit__(None, None, None)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == ["a", "c"]
    await asyncio.wait_for(take("d"), 5)


async def test_a_place_that_was_given_to_somebody_who_is_cancelled_goes_to_the_next():
    places, order = Places(1), []

    async def take(name: str) -> None:
        async with places:
            order.append(name)

    await places.__aenter__()
    first, second = asyncio.create_task(take("first")), asyncio.create_task(take("second"))
    await asyncio.sleep(0)
    await places.__aexit__(None, None, None)  # the first has the place, and has not woken yet
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert order == ["second"]


async def test_more_places_let_those_in_who_wait():
    places = Places(1)
    await places.__aenter__()
    waiter = asyncio.create_task(places.__aenter__())
    await asyncio.sleep(0)
    assert not waiter.done()
    places.resize(2)
    await asyncio.wait_for(waiter, 5)
