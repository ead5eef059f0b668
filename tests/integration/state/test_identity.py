"""A database file that is moved, copied over or swapped while it is open, and files that are not opened at all."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from statebed import ROOT, add, integrity, on_disk, open_database, prepare, texts

from state.database import Database
from state.errors import DamagedError, DatabaseRefusedError, StateDbReplacedError
from state.identity import filesystem_of, wal_of


def another(path: Path) -> Path:
    """Return a sound database of the same layout beside it, made by another process."""
    other = path.with_name("backup.db")
    script = "import sys, pathlib; from statebed import *; prepare(pathlib.Path(sys.argv[1]))"
    other.touch()
    subprocess.run(
        [sys.executable, "-c", script, str(other)], env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}, check=True
    )
    return other


def shell(command: str, *names: object) -> None:
    """Run a command in another process: opening the file in ours would drop our locks."""
    subprocess.run(["sh", "-c", command, "sh", *map(str, names)], check=True)


REPLACEMENTS: dict[str, Callable[[Path], None]] = {
    "another file in its place": lambda path: os.replace(another(path), path),
    "copied over": lambda path: shell('sleep 0.02; cp "$1" "$2"', another(path), path),
    "deleted": lambda path: path.unlink(),
    "wal deleted": lambda path: wal_of(path).unlink(),
    "wal replaced": lambda path: shell('cp "$1" "$1.new"; mv "$1.new" "$1"', wal_of(path)),
    "all deleted": lambda path: shell('rm "$1" "$1-wal" "$1-shm"', path),
    "folder renamed": lambda path: path.parent.rename(path.parent.with_name("elsewhere")),
    "hard link": lambda path: os.link(path, path.with_name("second-name.db")),
}


@pytest.mark.parametrize("how", REPLACEMENTS)
async def test_nothing_is_written_to_a_file_that_was_replaced(db: Database, how: str) -> None:
    await db.write(add("a"))
    REPLACEMENTS[how](db.path)
    with pytest.raises(StateDbReplacedError) as caught:
        await db.write(add("b"))
    assert not caught.value.committed
    assert "hermes-cron restore" in str(caught.value)
    assert db.healthy is not None
    with pytest.raises(StateDbReplacedError):
        await db.write(add("c"))


async def test_a_replacement_during_a_write_is_noticed_before_anyone_is_answered(db: Database) -> None:
    def swapped(connection: object) -> str:
        os.replace(another(db.path), db.path)
        return "fine"

    with pytest.raises(StateDbReplacedError) as caught:
        await db.write(swapped)
    assert caught.value.committed
    assert "is lost" in str(caught.value)


async def test_a_retired_database_leaves_the_new_files_alone_when_it_closes(path: Path) -> None:
    old = open_database(path)
    await old.write(add("old"))
    shell('rm "$1" "$1-wal" "$1-shm"', path)
    new = open_database(path)
    await new.write(add("new"))
    assert wal_of(path).stat().st_size
    with pytest.raises(StateDbReplacedError):
        await old.write(add("lost"))
    old.close()
    assert on_disk(path) == ["new"]
    await new.write(add("newer"))
    new.close()
    assert on_disk(path) == ["new", "newer"]


async def test_closing_does_not_write_over_a_copy_that_was_put_into_the_same_file(path: Path) -> None:
    db = open_database(path)
    await db.write(add("old"))
    backup = another(path)
    shell('sleep 0.02; cp "$1" "$2"', backup, path)
    db.close()
    assert path.read_bytes() == backup.read_bytes()


async def test_our_own_checkpoints_are_no_replacement(db: Database) -> None:
    for _ in range(3):
        await db.write(add("x" * 5_000_000))
        await db.write(lambda c: c.exec_driver_sql("DELETE FROM notes") and None)
    assert db.healthy is None


async def test_a_look_in_the_middle_of_a_checkpoint_sees_no_replacement(db: Database) -> None:
    stop = threading.Event()
    seen: list[bool] = []

    def look() -> None:
        while not stop.is_set():
            seen.append(db.is_replaced())

    looker = threading.Thread(target=look)
    looker.start()
    for n in range(12):
        await db.write(add(f"{n}" + "x" * 3_000_000))
    stop.set()
    await asyncio.to_thread(looker.join)
    assert not any(seen)


CHECKPOINTS = """
    import pathlib, sys
    from statebed import add, open_database
    db = open_database(pathlib.Path(sys.argv[1]))
    for n in range(3):
        db.write_sync(add(str(n) * 5_000_000))
    db.close()
"""


async def test_a_checkpoint_by_another_of_our_processes_is_no_replacement(db: Database) -> None:
    await db.write(add("a"))
    before = db.path.stat().st_mtime_ns
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHECKPOINTS), str(db.path)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        check=True,
    )
    assert db.path.stat().st_mtime_ns != before
    await db.write(add("b"))
    assert len(await db.read(texts)) == 5


# --- files that are not opened ------------------------------------------------------------------------

KILLED = """
    import os, pathlib, signal, sys
    from statebed import add, open_database
    db = open_database(pathlib.Path(sys.argv[1]))
    for text in sys.argv[2:]:
        db.write_sync(add(text))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def write_and_die(path: Path, *notes: str) -> None:
    """Leave a database as kill -9 leaves it: its newest rows in the -wal."""
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(path), *notes],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        check=False,
    )
    assert wal_of(path).stat().st_size


def test_rows_of_a_killed_process_are_there_again(path: Path) -> None:
    write_and_die(path, "a", "b")
    db = open_database(path)
    assert db.read_sync(texts) == ["a", "b"]
    db.close()


@pytest.mark.parametrize("command", ['mv "$1" "$2"', 'sleep 0.02; cp "$1" "$2"'], ids=["moved", "copied over"])
def test_a_backup_beside_an_old_wal_is_refused(path: Path, command: str) -> None:
    write_and_die(path, "a", "b")
    shell(command, another(path), path)
    with pytest.raises(DatabaseRefusedError, match=r"move state\.db-wal and state\.db-shm away"):
        open_database(path)


def test_a_wal_without_its_database_is_refused(path: Path) -> None:
    write_and_die(path, "a", "b")
    path.unlink()
    with pytest.raises(DatabaseRefusedError, match=r"no state\.db that it belongs to"):
        open_database(path)
    assert not path.exists()


def test_a_file_with_two_names_is_refused(path: Path) -> None:
    open_database(path).close()
    os.link(path, path.with_name("second.db"))
    with pytest.raises(DatabaseRefusedError, match="2 names"):
        open_database(path)


def test_a_file_that_is_no_database_is_said_to_be_none(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"hello" * 1000)
    from state.migrate import bring_up_to_date

    with pytest.raises(DamagedError, match="no database"):
        Database.open(path, prepare=bring_up_to_date)


def test_an_older_backup_is_noticed_and_remembered(path: Path) -> None:
    at = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
    db = open_database(path, now=lambda: at)
    db.write_sync(add("a"))
    db.close()
    shutil.copy(path, path.with_name("backup.db"))
    later = at.replace(hour=9)
    db = open_database(path, now=lambda: later)
    assert db.rewound_until is None
    db.write_sync(add("b"))
    db.close()
    shutil.copy(path.with_name("backup.db"), path)
    for _ in range(2):  # until somebody has dealt with it, not just once
        db = open_database(path, now=lambda: later.replace(hour=10))
        assert db.rewound_until == later
        assert db.read_sync(texts) == ["a"]
        db.close()


def test_files_are_for_their_owner_only(path: Path) -> None:
    db = open_database(path)
    db.write_sync(add("a"))
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in [path.parent, *path.parent.iterdir()]}
    db.close()
    assert modes == {
        "home": "0o700",
        "state.db": "0o600",
        "state.db-wal": "0o600",
        "state.db-shm": "0o600",
        "state.id": "0o600",
    }


def test_a_file_that_everybody_could_read_is_closed_to_them(path: Path) -> None:
    path.parent.mkdir()
    raw = sqlite3.connect(path)
    raw.close()
    path.touch()
    path.chmod(0o644)
    open_database(path).close()
    assert oct(path.stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/kim/state.db", "ext4"),
        ("/mnt/share/home/state.db", "nfs4"),
        ("/mnt/share/home/inner/state.db", "ext4"),
        ("/mnt/with space/state.db", "fuse.sshfs"),
        ("/mnt/sharing/state.db", "ext4"),
        ("/twice/state.db", "9p"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_innermost_mount(path: str, kind: str) -> None:
    mounts = textwrap.dedent(r"""
        /dev/vda / ext4 rw 0 0
        server:/x /mnt/share nfs4 rw 0 0
        /dev/vdb /mnt/share/home/inner ext4 rw 0 0
        kim@host: /mnt/with\040space fuse.sshfs rw 0 0
        /dev/vdc /twice ext4 rw 0 0
        host /twice 9p rw 0 0
    """)
    assert filesystem_of(Path(path), mounts) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_database_on_a_network_disk_is_refused(path: Path, kind: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n")
    with pytest.raises(DatabaseRefusedError, match=f"network file system \\({kind}\\)"):
        Database.open(path, prepare=prepare, mounts=mounts)
    assert not path.exists()


def test_the_file_is_sound_after_all_this(path: Path) -> None:
    write_and_die(path, "a")
    assert integrity(path) == "ok"
