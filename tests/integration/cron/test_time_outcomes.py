"""Every occurrence is in exactly one row, whatever happened to the machine, the clock and the daemon."""

from datetime import timedelta

from timebed import timed

HOURLY = "jobs: {tick: {schedule: '0 * * * *', text: tock}}"


async def test_an_occurrence_that_is_due_runs_once_and_the_next_is_known(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T09:00")
        await bed.advance("2026-03-02T09:30")
        assert (await bed.told("tick"), await bed.posts()) == ([("03-02 09:00", "ran", 1)], ["tock"])
        assert bed.next_of("tick") == "03-02 10:00"


async def test_every_instant_of_a_day_that_the_daemon_was_awake_has_a_run_of_its_own(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T00:30") as bed:
        await bed.step("2026-03-03T00:30", timedelta(minutes=30))
        rows = await bed.told("tick")
    assert [(due, outcome) for due, outcome, _ in rows] == [
        *((f"03-02 {hour:02}:00", "ran") for hour in range(1, 24)),
        ("03-03 00:00", "ran"),
    ]


async def test_what_fell_into_downtime_runs_once_the_newest_and_the_rest_share_a_row(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T09:10")
    async with timed(tmp_path, None, "2026-03-02T20:30") as bed:
        rows = await bed.told("tick")
        told = (await bed.rows("tick"))[1]
    assert rows == [("03-02 09:00", "ran", 1), ("03-02 10:00", "coalesced", 10), ("03-02 20:00", "ran", 1)]
    assert (told["until"], told["error"]) == (
        "2026-03-02T19:00:00+00:00",
        "The occurrence at 2026-03-02T20:00:00Z ran in its place.",
    )
