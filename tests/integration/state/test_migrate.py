"""The layout: from nothing, twice, from the past, from the future, interrupted."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect
from statebed import ROOT

from state import migrate
from state.errors import CopyFailedError, DatabaseRefusedError, SchemaTooNewError, SchemaTooOldError
from state.lock import HomeLock
from state.migrate import HEAD, bring_up_to_date
from state.registry import Registry
from state.schema import metadata


def made(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    bring_up_to_date(path)
    return path


def ask(path: Path, statement: str) -> list[tuple[object, ...]]:
    raw = sqlite3.connect(path)
    rows = raw.execute(statement).fetchall()
    raw.commit()
    raw.close()
    return rows


def shape(url: str) -> dict[str, object]:
    """Return what SQLite says of every table of ours."""
    engine = create_engine(url)
    if url == "sqlite://":
        metadata.create_all(engine)
    look = inspect(engine)
    found = {
        name: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in look.get_columns(name)],
            look.get_pk_constraint(name)["constrained_columns"],
            sorted(map(repr, look.get_foreign_keys(name))),
            sorted(repr(sorted(one["column_names"])) for one in look.get_unique_constraints(name)),
            sorted(repr((i["name"], i["column_names"], i["unique"])) for i in look.get_indexes(name)),
        )
        for name in metadata.tables
    }
    engine.dispose()
    return found


def test_from_nothing_the_migrations_make_what_the_schema_says(path: Path) -> None:
    assert shape(f"sqlite:///{made(path)}") == shape("sqlite://")


def test_the_newest_migration_is_the_one_that_the_program_asks_for() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "state" / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_twice_is_once(path: Path) -> None:
    before = ask(made(path), "SELECT sql FROM sqlite_schema ORDER BY name")
    bring_up_to_date(path)
    assert ask(path, "SELECT sql FROM sqlite_schema ORDER BY name") == before


def test_a_new_file_gives_space_back(path: Path) -> None:
    assert ask(made(path), "PRAGMA auto_vacuum") == [(2,)]


def test_a_database_from_the_future_is_refused_and_left_alone(path: Path) -> None:
    ask(made(path), "UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNewError, match="written by a newer version"):
        Registry().acquire(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    ask(path, "CREATE TABLE theirs (a)")
    with pytest.raises(DatabaseRefusedError, match="another program"):
        Registry().acquire(path)


def test_a_migration_that_fails_leaves_nothing_of_itself(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    raw.execute("CREATE TABLE turns (in_the_way)")  # the first migration trips over it half way
    raw.commit()
    raw.close()
    with pytest.raises(Exception, match="turns"):
        bring_up_to_date(path)
    names = {row[0] for row in ask(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert names == {"alembic_version", "turns"}
    ask(path, "DROP TABLE turns")
    bring_up_to_date(path)
    assert shape(f"sqlite:///{path}") == shape("sqlite://")


def test_an_old_layout_is_not_changed_under_a_living_daemon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path)
    monkeypatch.setattr(migrate, "HEAD", "9998")
    with HomeLock.acquire(path.parent, pid=os.getpid() + 1), pytest.raises(SchemaTooOldError, match="older layout"):
        bring_up_to_date(path)


def test_two_processes_that_start_at_once_make_one_database(path: Path) -> None:
    script = (
        "import sys, pathlib\nfrom state.registry import Registry\nsys.stdin.readline()\n"
        "with Registry().acquire(pathlib.Path(sys.argv[1])) as lease:\n"
        "    lease.db.write_sync(lambda c: None)\n"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert [racer.communicate()[1] for racer in racers] == [""] * 4
    assert ask(path, "SELECT count(*) FROM alembic_version") == [(1,)]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


def test_the_search_index_follows_every_change_of_a_turn(path: Path) -> None:
    raw = sqlite3.connect(made(path))
    raw.execute(
        "INSERT INTO turns (id, session_id, role, text, at, origin, unconfirmed)"
        " VALUES (1, 's', 'user', 'Fünf', 0, 'cron', 0)"
    )
    find = "SELECT rowid FROM turns_search WHERE turns_search MATCH ?"
    assert raw.execute(find, ("funf",)).fetchall() == [(1,)]
    raw.execute("UPDATE turns SET text = 'sechs'")
    assert [raw.execute(find, (word,)).fetchall() for word in ("funf", "sechs")] == [[], [(1,)]]
    raw.execute("DELETE FROM turns")
    assert raw.execute(find, ("sechs",)).fetchall() == []
    raw.execute("INSERT INTO turns_search (turns_search, rank) VALUES ('integrity-check', 1)")
    raw.close()


def test_the_index_of_letter_triples_follows_every_change_and_holds_nothing_else(path: Path) -> None:
    raw = sqlite3.connect(made(path))
    add = (
        "INSERT INTO turns (id, session_id, role, text, at, origin, unconfirmed)"
        " VALUES (?, 's', 'user', ?, 0, 'cron', 0)"
    )
    for one in ((1, "障害が発生しました"), (2, "an English brief — with a dash"), (3, "ระบบขัดข้อง")):
        raw.execute(add, one)

    def found(word: str) -> list[int]:
        rows = raw.execute("SELECT rowid FROM turns_trigrams WHERE turns_trigrams MATCH ?", (f'"{word}"',))
        return [row[0] for row in rows]

    assert [found("が発生"), found("ขัดข้อง"), found("brief")] == [[1], [3], []]
    raw.execute("UPDATE turns SET text = 'plain' WHERE id = 1")
    raw.execute("UPDATE turns SET text = '今は 今日です' WHERE id = 2")
    raw.execute("UPDATE turns SET text = 'ระบบทำงาน' WHERE id = 3")
    assert [found("が発生"), found("今日で"), found("ขัดข้อง"), found("ทำงาน")] == [[], [2], [], [3]]
    raw.execute("DELETE FROM turns")
    assert [found("今日で"), found("ทำงาน")] == [[], []]
    raw.close()


def older(path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a database as the version of that layout left it, with a turn in it."""
    path.parent.mkdir()
    path.touch()
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "HEAD", version)
        bring_up_to_date(path)
    ask(path, "INSERT INTO sessions VALUES ('s','a','w','c','dm',NULL,NULL,NULL,'c','{}',0,NULL,0,0,NULL)")
    for text in ("an English brief", "障害が発生しました"):
        ask(
            path,
            "INSERT INTO turns (session_id, role, text, at, origin, unconfirmed)"
            f" VALUES ('s', 'user', '{text}', 0, 'cron', 0)",
        )
    return path


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_an_older_database_keeps_its_rows_and_a_copy_is_kept_before(
    path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ask(older(path, version, monkeypatch), "SELECT * FROM turns")
    bring_up_to_date(path)
    bring_up_to_date(path)
    copy = path.parent / "backups" / f"state-before-{HEAD}-from-{version}.db"
    assert ask(path, "SELECT * FROM turns") == before == ask(copy, "SELECT * FROM turns")
    assert (ask(path, "SELECT * FROM alembic_version"), ask(copy, "SELECT * FROM alembic_version")) == (
        [(HEAD,)],
        [(version,)],
    )
    assert ask(path, "SELECT rowid FROM turns_search WHERE turns_search MATCH 'english'") == [(1,)]
    assert ask(path, "SELECT rowid FROM turns_trigrams WHERE turns_trigrams MATCH '障害が'") == [(2,)]
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert [one.name for one in copy.parent.iterdir()] == [copy.name]


def test_where_no_copy_can_be_kept_nothing_is_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(path, "0001", monkeypatch)
    copy = path.parent / "backups" / f"state-before-{HEAD}-from-0001.db"
    copy.mkdir(parents=True)
    with pytest.raises(CopyFailedError, match="could not be written"):
        bring_up_to_date(path)
    assert ask(path, "SELECT * FROM alembic_version") == [("0001",)]


def test_alembic_is_not_imported_for_a_database_that_is_up_to_date(path: Path) -> None:
    made(path)
    script = (
        "import sys, pathlib\nfrom state.registry import Registry\n"
        "Registry().acquire(pathlib.Path(sys.argv[1])).close()\nassert 'alembic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], env={"PYTHONPATH": str(ROOT)}, check=True)


def test_what_alembic_remembers_is_the_head(path: Path) -> None:
    engine = create_engine(f"sqlite:///{made(path)}")
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_heads() == (HEAD,)
    engine.dispose()
