"""Every occurrence is in exactly one row, whatever happened to the machine, the clock and the daemon."""

from datetime import timedelta

from daemonbed import until
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


async def test_a_restart_across_the_scheduled_minute_runs_it_once_with_its_lateness(tmp_path):
    text = "jobs: {noon: {schedule: '37 12 * * *', text: x}}"
    async with timed(tmp_path, text, "2026-03-02T12:36"):
        pass
    async with timed(tmp_path, None, "2026-03-02T12:38") as bed:
        row = (await bed.rows("noon"))[0]
        assert (await bed.told("noon"), row["late_s"]) == ([("03-02 12:37", "ran", 1)], 60.0)
        assert bed.next_of("noon") == "03-03 12:37"


async def test_after_a_long_restart_the_next_run_is_the_very_next_instant(tmp_path):
    text = "jobs: {early: {schedule: '0 4 * * *', text: x}, later: {schedule: '0 7 * * *', text: x}}"
    async with timed(tmp_path, text, "2026-02-06T03:00") as bed:
        await bed.advance("2026-02-06T07:00")
    async with timed(tmp_path, None, "2026-02-06T14:59") as bed:
        assert (bed.next_of("early"), bed.next_of("later")) == ("02-07 04:00", "02-07 07:00")
        assert [len(await bed.rows(job)) for job in ("early", "later")] == [1, 1]


async def test_twelve_restarts_in_an_hour_run_the_occurrence_once(tmp_path):
    text = "jobs: {once: {schedule: '15 6 * * *', text: x}}"
    async with timed(tmp_path, text, "2026-03-02T06:00"):
        pass
    for minute in range(16, 28):
        async with timed(tmp_path, None, f"2026-03-02T06:{minute}"):
            pass
    async with timed(tmp_path, None, "2026-03-02T06:40") as bed:
        assert (await bed.told("once"), await bed.posts()) == ([("03-02 06:15", "ran", 1)], ["x"])


async def test_twenty_overdue_jobs_run_once_each_in_the_order_of_their_instants(tmp_path):
    jobs = "".join(f"  j{n:02}: {{schedule: '{n} */{1 + n % 3} * * *', text: 'j{n:02}'}}\n" for n in range(20))
    async with timed(tmp_path, "jobs:\n" + jobs, "2026-03-02T08:00:30"):
        pass
    async with timed(tmp_path, None, "2026-03-02T20:00:30") as bed:
        rows = [row for row in await bed.rows() if row["outcome"] == "ran"]
        began = sorted(rows, key=lambda row: (row["started_at"], row["due"]))
    assert len(rows) == len({row["job"] for row in rows}) == 20
    assert [row["due"] for row in began] == sorted(row["due"] for row in rows)


async def test_catch_up_none_skips_what_was_missed_and_tells_the_owner(tmp_path):
    text = "jobs: {night: {schedule: '0 3 * * *', text: x, catch_up: none}}"
    async with timed(tmp_path, text, "2026-03-02T02:00"):
        pass
    async with timed(tmp_path, None, "2026-03-02T08:00") as bed:
        assert await bed.told("night") == [("03-02 03:00", "skipped_late", 1)]
        assert ["night" in post and "missed" in post for post in await bed.posts("alerts")] == [True]


async def test_a_machine_that_slept_over_an_occurrence_runs_it_once_when_it_wakes(tmp_path):
    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, late: 1h}}"
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        await bed.advance("2026-03-02T08:30")
        await bed.suspend("2026-03-02T11:05")
        row = (await bed.rows("brief"))[0]
    assert (row["outcome"], row["late_s"]) == ("ran", 2 * 3600 + 5 * 60)


async def test_a_daemon_that_was_busy_keeps_to_late(tmp_path):
    text = "jobs: {brief: {schedule: '0 9 * * *', text: x, late: 1h}}"
    async with timed(tmp_path, text, "2026-03-02T08:00") as bed:
        await bed.advance("2026-03-02T11:05")
        assert await bed.told("brief") == [("03-02 09:00", "skipped_late", 1)]


async def test_a_one_second_job_that_was_paused_for_a_week_is_one_row(tmp_path):
    async with timed(tmp_path, "jobs: {tick: {schedule: every 1s, text: x}}", "2026-03-02T08:00") as bed:
        await bed.wired.control.pause("tick", by="kim")
        await bed.advance("2026-03-09T08:00")
        rows = await bed.rows("tick")
        assert [(row["outcome"], row["count"], row["error"]) for row in rows] == [
            ("skipped_paused", 10_000, "The job was paused by kim.")
        ]
        assert (rows[0]["due"], rows[0]["until"]) == ("2026-03-02T08:00:01+00:00", "2026-03-09T08:00:00+00:00")


async def test_a_daemon_that_looks_every_second_writes_one_row_for_a_pause_all_the_same(tmp_path):
    async with timed(tmp_path, "jobs: {tick: {schedule: every 1s, text: x}}", "2026-03-02T08:00") as bed:
        await bed.wired.control.pause("tick", by="kim")
        await bed.step("2026-03-02T08:01:30", timedelta(seconds=1))
        await bed.wired.control.resume("tick")
        await bed.advance("2026-03-02T08:01:31")
        assert await bed.told("tick") == [("03-02 08:00:01", "skipped_paused", 90), ("03-02 08:01:31", "ran", 1)]


# --- clocks -------------------------------------------------------------------------------------------


async def test_a_clock_set_back_by_hours_goes_on_from_now_and_runs_nothing_twice(tmp_path, caplog):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.step("2026-03-02T12:30", timedelta(minutes=30))
        await bed.set_clock("2026-03-02T10:30")
        assert (await bed.job_row("tick")).cursor.isoformat() == "2026-03-02T10:30:00+00:00"
        await bed.step("2026-03-02T14:30", timedelta(minutes=30))
        rows = await bed.told("tick")
        steps = await bed.read(lambda conn: conn.exec_driver_sql("SELECT jobs FROM clock_steps").all())
    assert rows == [(f"03-02 {hour:02}:00", "ran", 1) for hour in (9, 10, 11, 12, 13, 14)]
    assert [tuple(step) for step in steps] == [(1,)]
    assert "clock_set_back" in {getattr(record, "action", "") for record in caplog.records}


async def test_a_clock_that_was_years_ahead_is_followed_back_at_the_next_start(tmp_path):
    async with timed(tmp_path, "jobs: {tick: {schedule: every 2h, text: x}}", "2031-01-01T08:30") as bed:
        await bed.advance("2031-01-01T10:30")
    async with timed(tmp_path, None, "2026-03-02T08:30") as bed:
        assert bed.next_of("tick") == "03-02 10:30"
        await bed.advance("2026-03-02T10:30")
        rows = await bed.rows("tick")
    assert [row["due"][:16] for row in rows if row["outcome"] == "ran"] == ["2026-03-02T10:30", "2031-01-01T10:30"]


async def test_a_shared_row_that_reaches_beyond_a_corrected_clock_is_cut_there(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30"):
        pass
    async with timed(tmp_path, None, "2026-03-02T20:30") as bed:  # the clock is wrong here
        assert await bed.told("tick") == [("03-02 09:00", "coalesced", 11), ("03-02 20:00", "ran", 1)]
    async with timed(tmp_path, None, "2026-03-02T11:30") as bed:
        await bed.step("2026-03-02T21:30", timedelta(minutes=30))
        rows = await bed.told("tick")
    assert rows == [
        ("03-02 09:00", "coalesced", 3),
        *((f"03-02 {hour}:00", "ran", 1) for hour in range(12, 22)),
    ]


async def test_a_clock_a_little_behind_waits_until_it_has_caught_up(tmp_path):
    async with timed(tmp_path, "jobs: {tick: {schedule: '* * * * *', text: x}}", "2026-03-02T08:00:30") as bed:
        await bed.advance("2026-03-02T08:02:00")
        before = await bed.told("tick")
        await bed.set_clock("2026-03-02T07:59:00")
        await bed.advance("2026-03-02T08:01:30")
        assert await bed.told("tick") == before
        await bed.advance("2026-03-02T08:03:00")
        assert (await bed.told("tick"))[-1] == ("03-02 08:03", "ran", 1)


async def test_a_clock_that_leaps_days_ahead_runs_each_job_once_at_most(tmp_path, caplog):
    text = "jobs: {a: {schedule: '0 * * * *', text: x, catch_up: all, late: 30d}, b: {schedule: '0 9 * * *', text: x}}"
    async with timed(tmp_path, text, "2026-03-02T08:30") as bed:
        await bed.advance("2026-03-02T08:40")
        await bed.set_clock("2026-03-05T08:40")
        ran = [[due for due, outcome, _ in await bed.told(job) if outcome == "ran"] for job in ("a", "b")]
    assert ran == [["03-05 08:00"], ["03-04 09:00"]]
    assert "clock_leapt" in {getattr(record, "action", "") for record in caplog.records}


# --- what the ledger promises -------------------------------------------------------------------------


async def test_a_row_that_was_lost_is_found_missing_at_the_next_start_and_written_as_unknown(tmp_path, caplog):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.step("2026-03-02T12:30", timedelta(minutes=30))

        def lose(conn):
            conn.exec_driver_sql("DELETE FROM deliveries")
            conn.exec_driver_sql("DELETE FROM runs WHERE occurrence_id = 2")
            conn.exec_driver_sql("DELETE FROM occurrences WHERE id = 2")

        await bed.wired.db.write(lose)
    async with timed(tmp_path, None, "2026-03-02T12:40") as bed:

        async def repaired():
            rows = await bed.told("tick")
            return rows if len(rows) == 4 else None

        rows = await until(repaired, "the repair")
    assert [(due, outcome) for due, outcome, _ in rows] == [
        ("03-02 09:00", "ran"), ("03-02 10:00", "unknown"), ("03-02 11:00", "ran"), ("03-02 12:00", "ran")
    ]  # fmt: skip
    assert "ledger_repaired" in {getattr(record, "action", "") for record in caplog.records}


async def test_rows_that_lie_over_each_other_are_made_disjoint(tmp_path):
    async with timed(tmp_path, HOURLY, "2026-03-02T08:30") as bed:
        await bed.step("2026-03-02T12:30", timedelta(minutes=30))

        def overlap(conn):
            conn.exec_driver_sql(
                "UPDATE occurrences SET outcome = 'coalesced', count = 3,"
                " until = (SELECT due FROM occurrences WHERE id = 3) WHERE id = 1"
            )

        await bed.wired.db.write(overlap)
    async with timed(tmp_path, None, "2026-03-02T12:40") as bed:

        async def repaired():
            rows = await bed.told("tick")
            return rows if rows[0][2] == 1 else None

        assert await until(repaired, "the repair") == [
            ("03-02 09:00", "coalesced", 1),
            ("03-02 10:00", "ran", 1),
            ("03-02 11:00", "ran", 1),
            ("03-02 12:00", "ran", 1),
        ]
