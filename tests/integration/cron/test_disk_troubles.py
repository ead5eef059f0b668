"""Homes that cannot be used and databases in trouble: one sentence each, and work goes on by itself where it can."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from daemonbed import daemon, until
from processbed import Process, process

QUIET = "{timezone: UTC, jobs: {fruit: {schedule: '0 9 * * *', text: apples}}}"


async def refused(home: Process, *arguments: str) -> str:
    """Run a command that must fail in one sentence; return it."""
    code, out, err = await home.cli(*arguments)
    assert (code, out, "Traceback" in err) == (1, "", False), err
    return err.strip().splitlines()[-1]


@pytest.mark.parametrize("kind", ["a file", "below a file", "no place", "a folder as database"])
async def test_a_home_that_cannot_be_one_is_said_in_a_sentence(tmp_path: Path, kind: str) -> None:
    home = Process(tmp_path)
    home.write(QUIET)
    (tmp_path / "file").write_text("")
    (tmp_path / "home" / "state.db").mkdir(parents=True)
    place = {
        "a file": tmp_path / "file",
        "below a file": tmp_path / "file" / "home",
        "no place": Path("/proc/hermes-cron"),
        "a folder as database": tmp_path / "home",
    }[kind]
    for command in (("run", "--port", "0"), ("trigger", "fruit")):
        said = await refused(home, "--home", str(place), *command)
        assert said.startswith(f"Error: {place}")
        assert ("cannot be used as a home" in said) or ("it is no file" in said)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounts a folder read-only")
async def test_a_read_only_disk_is_said_and_lists_work_on_it(tmp_path: Path) -> None:
    home = Process(tmp_path)
    home.write(QUIET)
    assert (await home.cli("trigger", "fruit", "--wait"))[0] == 0
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
    program = [sys.executable, "-c", "from cron.cli.main import main; main()", "--home", str(home.home)]

    def on_it(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "-m", "sh", "-c", script, "sh", str(home.home), *program, *arguments]
        environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environ, timeout=60)

    lists = await asyncio.to_thread(on_it, "runs", "--json")
    if "mount" in lists.stderr or "unshare" in lists.stderr:
        pytest.skip(f"may not mount here: {lists.stderr.strip()}")
    daemon_on_it = await asyncio.to_thread(on_it, "run", "--port", "0")
    assert (lists.returncode, '"outcome": "ran"' in lists.stdout) == (0, True), lists.stderr
    assert (daemon_on_it.returncode, "Traceback" in daemon_on_it.stderr) == (1, False)
    assert "cannot be used as a home (Read-only file system)" in daemon_on_it.stderr


async def test_a_damaged_database_stops_the_start_with_the_way_out_and_a_backup_helps(tmp_path: Path) -> None:
    home = Process(tmp_path)
    home.write(QUIET)
    assert (await home.cli("trigger", "fruit", "--wait"))[0] == 0
    copy = tmp_path / "copy.db"
    assert (await home.cli("backup", str(copy)))[0] == 0
    path = home.home / "state.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\xff" * size)
    for command in (("run", "--port", "0"), ("runs",), ("backup", str(tmp_path / "bad.db"))):
        assert "hermes-cron restore" in await refused(home, *command)
    assert (await home.cli("restore", str(copy)))[0] == 0
    assert [row["outcome"] for row in await home.json("runs")] == ["ran"]


async def test_a_lock_held_by_another_program_delays_a_run_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the writer's patience, which is shortened here as the lock is."""
    monkeypatch.setattr("state.sqlite.BUSY_SECONDS", 0.2)
    async with daemon(tmp_path, "{timezone: UTC, jobs: {fruit: {schedule: in 2s, late: 1m, text: apples}}}") as running:
        hold = (
            "import sqlite3, sys, time\nraw = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "raw.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\ntime.sleep(5)\nraw.execute('COMMIT')\n"
        )
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", hold, str(tmp_path / "home" / "state.db"), stdout=asyncio.subprocess.PIPE
        )
        assert other.stdout is not None
        assert await other.stdout.readline() == b"held\n"
        await other.wait()
        row = await running.run_of("fruit")
        messages = await running.local()
        healthy = running.wired.db.healthy
    assert (row["outcome"], len(messages), healthy) == ("ran", 1, None)


async def test_a_kill_in_the_middle_of_writing_leaves_whole_deliveries_only(tmp_path: Path) -> None:
    config = """
        timezone: UTC
        jobs:
          busy: {schedule: every 1s, text: apples, surface: thread, deliver: ["local:#a", "local:#b"]}
        """
    async with process(tmp_path, config) as running:
        for _ in range(3):
            before = len(await running.json("runs"))

            async def more(before: int = before) -> bool:
                return len(await running.json("runs")) > before + 1

            await until(more, "more runs")
            await running.kill()
            with contextlib.closing(sqlite3.connect(running.home / "state.db")) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
                half = raw.execute(
                    "SELECT id FROM deliveries WHERE state = 'sent' AND (flat_seeded = 0 OR thread_seeded = 0)"
                ).fetchall()
                mirrored = raw.execute(
                    "SELECT d.id FROM deliveries d WHERE d.state = 'sent' AND d.run_id IS NOT NULL"
                    " AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.delivery_id = d.id)"
                ).fetchall()
            assert (half, mirrored) == ([], [])
            await running.start()
