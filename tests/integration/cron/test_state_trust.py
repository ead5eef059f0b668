"""What a person sees when the database under a running daemon is not to be trusted, or is an older copy."""

import asyncio
import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from daemonbed import daemon, until
from processbed import process
from sqlalchemy import select

from cron import ledger
from cron.outcomes import OccurrenceKind
from state.schema import meta, runs

QUIET = "jobs: {fruit: {schedule: '0 9 * * *', text: apples}}"


def copy_of(path: Path, to: Path) -> Path:
    """Copy a database as another program would, by the backup API."""
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE").fetchall()
    return to


def put_in_place(fresh: Path, path: Path) -> bytes:
    """Let another file stand in the path's place, without the old -wal; return what is in it."""
    content = fresh.read_bytes()
    fresh.replace(path)
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink(missing_ok=True)
    return content


# --- replaced -----------------------------------------------------------------------------------------


async def test_an_idle_daemon_whose_database_was_replaced_says_so_and_exits_with_1(tmp_path):
    async with process(tmp_path, QUIET) as running:
        path = running.home / "state.db"
        await until(lambda: "action=account_up" in running.log(), "the page's account")
        content = put_in_place(copy_of(path, tmp_path / "other.db"), path)
        code = await asyncio.wait_for(running._daemon.wait(), 20)
        after = path.read_bytes()
        said = running.log()
        await running.start()  # as a supervisor would: it lives on the new file
        assert "fruit" in (await running.cli("list"))[1]
    assert code == 1
    assert "action=state_lost" in said
    assert "state.db was replaced while it was open" in said
    assert "Traceback" not in said.split("action=state_lost")[0]
    assert (after, path.with_name("state.db-wal").exists()) == (content, False)
    assert not (running.home / "daemon.json").exists()


async def test_a_copy_beside_the_old_wal_is_refused_at_the_next_start_with_the_way_out(tmp_path):
    async with process(tmp_path, QUIET) as running:
        path = running.home / "state.db"
        copy_of(path, tmp_path / "other.db").replace(path)
        assert await asyncio.wait_for(running._daemon.wait(), 20) == 1
        code, _, err = await running.cli("run", "--port", "0")
        path.with_name("state.db-wal").unlink()
        path.with_name("state.db-shm").unlink()
        await running.start()
        said = running.log()
    assert "another file stands in its place" in said
    assert (code, "another file than the one that state.db-wal belongs to" in err) == (1, True)
    assert "hermes-cron restore" in err


async def test_health_says_that_the_database_was_replaced_before_anybody_writes(tmp_path):
    async with daemon(tmp_path, QUIET) as running:
        path = tmp_path / "home" / "state.db"
        assert running.wired.daemon.health()["status"] == "ok"
        put_in_place(copy_of(path, tmp_path / "other.db"), path)
        status = running.wired.daemon.health()["status"]
        code = await asyncio.wait_for(running.task, 20)
    assert ("was replaced" in status, code) == (True, 1)


async def test_what_composes_when_the_database_is_replaced_is_ended_with_its_processes(tmp_path, caplog):
    config = "jobs: {slow: {schedule: '0 9 * * *', command: [sh, -c, 'echo $$ > pid; sleep 300']}}"
    async with daemon(tmp_path, config) as running:
        await running.wired.control.trigger("slow")
        await until((tmp_path / "pid").exists, "the command")
        await until((tmp_path / "pid").read_text, "its pid")
        pid = int((tmp_path / "pid").read_text())
        path = tmp_path / "home" / "state.db"
        content = put_in_place(copy_of(path, tmp_path / "other.db"), path)
        code = await asyncio.wait_for(running.task, 20)
    assert (code, path.read_bytes()) == (1, content)
    assert not Path(f"/proc/{pid}").exists()


async def test_where_a_commit_may_or_may_not_be_stored_the_daemon_stops_calling_and_exits_with_1(tmp_path, caplog):
    import resource

    async with daemon(tmp_path, QUIET) as running:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
        try:
            with pytest.raises(Exception, match="unknown what was stored"):
                await running.wired.control.trigger("fruit")
            code = await asyncio.wait_for(running.task, 20)
            status = running.wired.daemon.health()["status"]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (code, "unknown what was stored" in status) == (1, True)
    assert [one.levelname for one in caplog.records if getattr(one, "action", "") == "state_lost"] == ["CRITICAL"]


# --- two at once, and killed --------------------------------------------------------------------------


async def test_a_second_daemon_is_refused_with_the_pid_of_the_first_and_lists_still_work(tmp_path):
    async with process(tmp_path, QUIET) as running:
        code, out, err = await running.cli("run", "--port", "0")
        lists = await running.json("list")
    assert (code, out) == (1, "")
    assert f"in use by process {running._daemon.pid}." in err
    assert "Traceback" not in err
    assert [one["job"] for one in lists] == ["fruit"]


async def test_a_home_of_a_killed_daemon_is_taken_over_at_once(tmp_path):
    async with process(tmp_path, QUIET) as running:
        assert (await running.cli("trigger", "fruit", "--wait"))[0] == 0
        await running.kill()
        assert [one["outcome"] for one in await running.json("runs")] == ["ran"]  # from the -wal it left
        await running.start()
        assert [one["outcome"] for one in await running.json("runs")] == ["ran"]


# --- an older copy ------------------------------------------------------------------------------------

EVERY = """
    timezone: UTC
    jobs:
      minutes: {schedule: '* * * * *', command: [sh, -c, 'echo x >> times'], on_failure: 'local:#alerts'}
      sleepy: {schedule: '0 9 * * *', text: apples}
"""


async def test_what_an_older_copy_has_forgotten_is_unknown_told_and_not_run(tmp_path):
    path = tmp_path / "home" / "state.db"
    async with daemon(tmp_path, EVERY) as running:
        began = datetime.now(UTC).replace(second=0, microsecond=0)

    # An hour ago the copy was made; until ten minutes ago the daemon lived.
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE jobs SET cursor = ?", (_micros(began - timedelta(minutes=60)),))
        rewind(raw, began - timedelta(minutes=10, seconds=-1))
    async with daemon(tmp_path) as running:

        async def told():
            return [one for one in await running.local("alerts") if "older copy" in one["text"]]

        messages = await until(told, "the alert")
        rows = await running.runs("minutes")
        left = await running.read(lambda conn: conn.execute(select(meta).where(meta.c.key == "rewound")).all())
    unknown = [row for row in rows if row["outcome"] == "unknown"]
    assert [(row["count"], row["run"]) for row in unknown] == [(50, None)]
    assert "50 unknown" in messages[0]["text"]
    assert left == []
    # What came after is judged as ever: missed, the newest one runs.
    later = [row for row in rows if row["due"] > unknown[0]["until"]]
    assert {row["outcome"] for row in later} <= {"coalesced", "ran", None, "silent", "failed"}
    async with daemon(tmp_path) as running:
        again = [row for row in await running.runs("minutes") if row["outcome"] == "unknown"]
    assert len(again) == 1


async def test_a_run_that_an_older_copy_holds_open_is_unknown_and_its_command_is_not_run(tmp_path):
    path = tmp_path / "home" / "state.db"
    config = "jobs: {count: {schedule: '0 9 * * *', command: [sh, -c, 'echo x >> times'], repeatable: true}}"
    async with daemon(tmp_path, config) as running:
        due = datetime.now(UTC)

        def claim(conn):
            return ledger.claim(
                conn,
                job_id="count",
                kind=OccurrenceKind.SCHEDULED,
                due=due,
                incarnation=conn.execute(select(runs.c.incarnation)).scalar() or "inc_old",
                definition={},
                at=due,
            )

        await running.wired.db.write(lambda conn: ledger.begin_incarnation(conn, incarnation="inc_old", pid=1, at=due))
        run = await running.wired.db.write(claim)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        rewind(raw, due)
    async with daemon(tmp_path) as running:
        row = next(one for one in await running.runs() if one["run"] == run)
    assert row["outcome"] == "unknown"
    assert "older copy" in row["error"]
    assert not (tmp_path / "times").exists()


def rewind(raw: sqlite3.Connection, until: datetime) -> None:
    raw.execute("INSERT INTO meta VALUES ('rewound', ?)", (str(_micros(until)),))
    raw.commit()


def _micros(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)
