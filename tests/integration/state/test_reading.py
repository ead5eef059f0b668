"""Readers, the -wal's size, and looking without touching."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import OperationalError
from statebed import OtherProcess, add, count

from state.database import Database
from state.errors import DamagedError, DatabaseRefusedError, NoDatabaseError, SchemaTooNewError, SchemaTooOldError
from state.identity import wal_of
from state.readonly import open_readonly
from state.registry import Registry
from state.schema import meta
from state.wal import MEGABYTE


async def test_a_read_sees_every_write_that_was_answered_before(db: Database) -> None:
    for n in range(200):
        await db.write(add(str(n)))
        assert await db.read(count) == n + 1


async def test_a_read_sees_one_state_from_beginning_to_end(db: Database) -> None:
    begun, go = threading.Event(), threading.Event()

    def twice(connection: Connection) -> tuple[int, int]:
        before = count(connection)
        begun.set()
        assert go.wait(30)
        return before, count(connection)

    reading = asyncio.create_task(db.read(twice))
    await asyncio.to_thread(begun.wait, 30)
    await db.write(add("a"))
    assert await db.read(count) == 1
    go.set()
    assert await reading == (0, 0)


async def test_a_reader_cannot_write(db: Database) -> None:
    with pytest.raises(OperationalError, match="readonly"):
        await db.read(add("a"))


async def test_a_failed_read_is_its_callers_only(db: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        await db.read(lambda _: 1 / 0)
    with pytest.raises(OperationalError):
        await db.read(lambda connection: connection.execute(text("SELECT nonsense")).all())
    assert await db.read(count) == 0


async def test_the_wal_stays_small_under_readers_that_never_pause(db: Database) -> None:
    stop = threading.Event()

    def keep_reading() -> None:
        while not stop.is_set():
            db.read_sync(count)

    readers = [threading.Thread(target=keep_reading) for _ in range(3)]
    for reader in readers:
        reader.start()
    largest = 0
    for n in range(120):
        await db.write(add(f"{n}" + "x" * 500_000))
        largest = max(largest, wal_of(db.path).stat().st_size)
    stop.set()
    for reader in readers:
        await asyncio.to_thread(reader.join)
    assert largest < 18 * MEGABYTE
    assert await db.read(count) == 120


async def test_a_long_read_is_interrupted_and_run_again_so_that_the_wal_can_shrink(db: Database) -> None:
    begun = threading.Event()
    runs: list[int] = []

    def long(connection: Connection) -> str:
        runs.append(1)
        count(connection)
        begun.set()
        if len(runs) == 1:  # far longer than anybody would wait
            connection.execute(
                text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n")
            ).all()
        return "done"

    reading = asyncio.create_task(db.read(long))
    await asyncio.to_thread(begun.wait, 30)
    for n in range(40):
        await db.write(add(f"{n}" + "x" * 500_000))
    assert await reading == "done"
    await db.write(count)
    assert wal_of(db.path).stat().st_size < 17 * MEGABYTE


async def test_others_commits_show_in_the_data_version_and_ours_do_not(db: Database) -> None:
    before = await db.data_version()
    await db.write(add("a"))
    assert await db.data_version() == before
    script = (
        "import sqlite3, sys\nraw = sqlite3.connect(sys.argv[1])\n"
        "raw.execute('INSERT INTO notes VALUES (9, 9)')\nraw.commit()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(db.path)], check=True)
    assert await db.data_version() != before


# --- looking without touching -------------------------------------------------------------------------


def made(path: Path) -> Path:
    with Registry().acquire(path):
        return path


def keys(connection: Connection) -> list[str]:
    return list(connection.execute(select(meta.c.key).order_by(meta.c.key)).scalars())


def test_lists_read_beside_a_daemon_and_see_what_it_wrote(path: Path) -> None:
    with Registry().acquire(path) as lease, open_readonly(path) as look:
        version = look.data_version()
        lease.db.write_sync(lambda c: c.execute(meta.insert(), {"key": "k", "value": "v"}) and None)
        assert look.data_version() != version
        assert "k" in look.read_sync(keys)


def test_lists_read_without_a_daemon_and_leave_the_file_as_it_is(path: Path) -> None:
    before = made(path).read_bytes()
    with open_readonly(path) as look:
        assert look.read_sync(keys) == ["batch", "uuid"]
        with pytest.raises(OperationalError, match="readonly"):
            look.read_sync(lambda c: c.execute(meta.delete()) and None)
    look.close()
    assert path.read_bytes() == before


async def test_a_page_reads_without_blocking(path: Path) -> None:
    with open_readonly(made(path)) as look:
        assert await look.read(keys) == ["batch", "uuid"]


def test_a_look_while_somebody_writes_waits_for_nobody(path: Path) -> None:
    with OtherProcess(made(path)) as other, open_readonly(path) as look:
        assert look.read_sync(keys) == ["batch", "uuid"]
        other.free()


def test_before_there_is_a_database_that_is_what_is_said(path: Path) -> None:
    with pytest.raises(NoDatabaseError, match="Start the daemon once"):
        open_readonly(path)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    with pytest.raises(NoDatabaseError):
        open_readonly(path)


def test_older_and_newer_layouts_are_told_apart(path: Path) -> None:
    made(path)
    _run(path, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNewError):
        open_readonly(path)


def test_an_older_layout_asks_for_the_daemon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path)
    monkeypatch.setattr("state.readonly.HEAD", "9998")
    with pytest.raises(SchemaTooOldError, match="Start the daemon once"):
        open_readonly(path)


def _run(path: Path, statement: str) -> None:
    import sqlite3

    raw = sqlite3.connect(path)
    raw.execute(statement)
    raw.commit()
    raw.close()


def test_what_is_no_database_is_said_to_be_none(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"hello" * 1000)
    with pytest.raises(DamagedError):
        open_readonly(path)


def as_nobody(work: str, path: Path) -> str:
    """Run code in a process that may only read the folder, as a list on a read-only disk does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            exec(work, {"path": path, "open_readonly": open_readonly, "keys": keys, "refused": DatabaseRefusedError})
            code = 0
        finally:
            os._exit(code)
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@pytest.fixture
def shown(path: Path) -> Path:
    """A database in a folder that everybody may look into and nobody but its owner change."""
    made(path)
    for folder in [path.parent, *list(path.parents)[1:5]]:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    path.chmod(0o644)
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_folder_that_cannot_be_written_is_read_all_the_same(shown: Path) -> None:
    work = "with open_readonly(path) as look: assert look.read_sync(keys) == ['batch', 'uuid']"
    assert as_nobody(work, shown) == "0"


@pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_file_that_may_not_be_read_is_said_to_be_unreadable(shown: Path) -> None:
    shown.chmod(0o600)
    work = (
        "try:\n    open_readonly(path)\n"
        "except refused as error:\n    assert 'who may read it' in str(error)\nelse:\n    1 / 0"
    )
    assert as_nobody(work, shown) == "0"
