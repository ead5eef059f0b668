"""Copies of a database that is in use, and the way back."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select

from state.backup import back_up, restore
from state.database import Database
from state.errors import CopyFailedError, DamagedError, DatabaseRefusedError, NoDatabaseError, SchemaTooNewError
from state.migrate import bring_up_to_date
from state.schema import incarnations

AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


def opened(path: Path, at: datetime = AT) -> Database:
    return Database.open(path.resolve(), prepare=bring_up_to_date, now=lambda: at)


@pytest.fixture
def live(path: Path) -> Iterator[Database]:
    db = opened(path)
    yield db
    db.close()


def add(name: str) -> object:
    def run(conn: Connection) -> None:
        conn.execute(insert(incarnations).values(id=name, pid=1, started_at=AT))

    return run


def names(conn: Connection) -> list[str]:
    return list(conn.execute(select(incarnations.c.id).order_by(incarnations.c.id)).scalars())


def in_file(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in raw.execute("SELECT id FROM incarnations ORDER BY id")]


# --- out ----------------------------------------------------------------------------------------------


def test_a_backup_beside_a_daemon_holds_what_was_committed_and_is_one_file(live: Database, tmp_path: Path) -> None:
    live.write_sync(add("a"))
    copy = tmp_path / "copy.db"
    back_up(live.path, copy)
    live.write_sync(add("b"))
    assert in_file(copy) == ["a"]
    assert (copy.read_bytes()[18:20], oct(copy.stat().st_mode & 0o777)) == (b"\x01\x01", "0o600")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy.db", "home"]
    assert live.lost is None
    assert live.read_sync(names) == ["a", "b"]


def test_a_backup_without_a_daemon_leaves_the_home_as_it_is(path: Path, tmp_path: Path) -> None:
    db = opened(path)
    db.write_sync(add("a"))
    db.close()
    before = path.read_bytes()
    back_up(path, tmp_path / "copy.db")
    assert (in_file(tmp_path / "copy.db"), path.read_bytes()) == (["a"], before)
    with contextlib.closing(opened(path)) as again:
        assert (again.rewound_until, again.read_sync(names)) == (None, ["a"])


def test_a_backup_that_cannot_be_written_leaves_the_old_one_and_nothing_half(live: Database, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "copy.db").mkdir()
    with pytest.raises(CopyFailedError, match="could not be written"):
        back_up(live.path, folder / "copy.db")
    assert [one.name for one in folder.iterdir()] == ["copy.db"]


def test_there_is_nothing_to_back_up_before_there_is_a_database(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NoDatabaseError):
        back_up(path, tmp_path / "copy.db")
    assert not path.parent.exists()


def test_a_damaged_database_is_not_called_a_backup(path: Path, tmp_path: Path) -> None:
    db = opened(path)
    for number in range(2000):
        db.write_sync(add(f"{number:05}"))
    db.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 8192)
        file.write(b"\xff" * 8192)
    with pytest.raises(DamagedError, match="damaged"):
        back_up(path, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


# --- back ---------------------------------------------------------------------------------------------


def test_a_restored_backup_is_known_to_be_older_and_what_was_there_is_kept(path: Path, tmp_path: Path) -> None:
    copy, later = tmp_path / "copy.db", AT.replace(hour=9)
    with contextlib.closing(opened(path)) as db:
        db.write_sync(add("a"))
        back_up(path, copy)
    with contextlib.closing(opened(path, later)) as db:
        db.write_sync(add("b"))
    inode = path.stat().st_ino
    kept = restore(path, copy, kept_as="before.db")
    assert kept == path.parent / "backups" / "before.db"
    assert in_file(kept) == ["a", "b"]
    assert path.stat().st_ino == inode
    with contextlib.closing(opened(path, later)) as db:
        assert (db.read_sync(names), db.rewound_until) == (["a"], later)
        db.write_sync(add("c"))
        assert db.lost is None


def test_a_backup_is_put_into_an_empty_home(path: Path, tmp_path: Path) -> None:
    with contextlib.closing(opened(path)) as db:
        db.write_sync(add("a"))
    copy, other = tmp_path / "copy.db", tmp_path / "other" / "state.db"
    back_up(path, copy)
    other.parent.mkdir()
    assert restore(other, copy, kept_as="before.db") is None
    with contextlib.closing(opened(other)) as db:
        assert (db.read_sync(names), db.rewound_until) == (["a"], None)
    assert oct(other.stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize("how", ["damaged", "beside an old wal"])
def test_a_database_that_is_not_fit_to_be_opened_is_moved_away_whole(path: Path, tmp_path: Path, how: str) -> None:
    copy = tmp_path / "copy.db"
    with contextlib.closing(opened(path)) as db:
        db.write_sync(add("a"))
        back_up(path, copy)
        if how == "beside an old wal":
            db.write_sync(add("b"))
            wal = path.with_name("state.db-wal").read_bytes()
    if how == "damaged":
        path.write_bytes(b"nonsense" * 1000)
    else:
        shutil.copy(copy, tmp_path / "new.db")
        (tmp_path / "new.db").replace(path)
        path.with_name("state.db-wal").write_bytes(wal)
        with pytest.raises(DatabaseRefusedError, match="hermes-cron restore"):
            opened(path)
    kept = restore(path, copy, kept_as="before.db")
    assert kept is not None
    assert kept.exists()
    assert kept.with_name("before.db-wal").exists() == (how != "damaged")
    with contextlib.closing(opened(path)) as db:
        assert db.read_sync(names) == ["a"]


def test_what_is_no_sound_backup_is_refused_and_nothing_is_touched(path: Path, tmp_path: Path) -> None:
    with contextlib.closing(opened(path)) as db:
        db.write_sync(add("a"))
    before = path.read_bytes()
    text, future, foreign = (tmp_path / name for name in ("text.db", "future.db", "foreign.db"))
    text.write_text("hello\n" * 1000)
    back_up(path, future)
    with contextlib.closing(sqlite3.connect(future)) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
        raw.commit()
    with contextlib.closing(sqlite3.connect(foreign)) as raw:
        raw.execute("CREATE TABLE theirs (a)")
    for source, error in (
        (text, DamagedError),
        (future, SchemaTooNewError),
        (foreign, DatabaseRefusedError),
        (path, DatabaseRefusedError),
        (tmp_path / "none.db", NoDatabaseError),
    ):
        with pytest.raises(error):
            restore(path, source, kept_as="before.db")
    assert path.read_bytes() == before
    assert not (path.parent / "backups").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_said_to_be_so(path: Path, tmp_path: Path) -> None:
    with contextlib.closing(opened(path)):
        pass
    copy = tmp_path / "copy.db"
    back_up(path, copy)
    path.parent.chmod(0o500)
    try:
        with pytest.raises((CopyFailedError, PermissionError)):
            restore(path, copy, kept_as="before.db")
    finally:
        path.parent.chmod(0o700)
