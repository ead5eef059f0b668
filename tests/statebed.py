"""A small database for tests of the state package: two tables of our own, the real file, the real threads."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, ForeignKey, Integer, MetaData, Table, Text, func, insert, select

from state import sqlite
from state.database import Database

ROOT = Path(__file__).resolve().parent.parent

metadata = MetaData()
notes = Table("notes", metadata, Column("id", Integer, primary_key=True), Column("text", Text, unique=True))
lines = Table(
    "lines",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("note", Integer, ForeignKey("notes.id", deferrable=True, initially="DEFERRED")),
)
meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

ADD = insert(notes)
ALL = select(notes.c.text).order_by(notes.c.id)
COUNT = select(func.count()).select_from(notes)


def prepare(path: Path) -> None:
    """Bring a file to the layout above."""
    raw = sqlite.connect_plain(path)
    sqlite.set_up_file(raw)
    raw.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE)")
    raw.execute(
        "CREATE TABLE IF NOT EXISTS lines (id INTEGER PRIMARY KEY,"
        " note INTEGER REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    raw.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    raw.close()


def open_database(path: Path, **settings: Any) -> Database:
    return Database.open(path.resolve(), prepare=prepare, **settings)


def add(text: str) -> Callable[[Connection], int]:
    """Return a function that adds one note and returns its id."""

    def run(connection: Connection) -> int:
        return int(connection.execute(ADD, {"text": text}).inserted_primary_key[0])

    return run


def texts(connection: Connection) -> list[str]:
    return list(connection.execute(ALL).scalars())


def count(connection: Connection) -> int:
    return int(connection.execute(COUNT).scalar_one())


def on_disk(path: Path) -> list[str]:
    """Return the notes as another process finds them."""
    script = (
        "import sqlite3, sys, json\n"
        "rows = sqlite3.connect(sys.argv[1]).execute('SELECT text FROM notes ORDER BY id').fetchall()\n"
        "print(json.dumps([row[0] for row in rows]))\n"
    )
    import json

    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def stopped_clock() -> float:
    """A monotonic clock that stands still: a batch then takes whatever is queued."""
    return 0.0


class Turnstile:
    """A function for the writer that stays inside until it is let go, so that others queue behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._go = threading.Event()

    def __call__(self, connection: Connection) -> None:
        self.entered.set()
        assert self._go.wait(30)

    def let_go(self) -> None:
        self._go.set()


class OtherProcess:
    """Another program with the database open, which holds its write lock until told otherwise."""

    _SCRIPT = (
        "import sqlite3, sys\n"
        "raw = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "raw.execute('BEGIN IMMEDIATE')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.readline()\n"
        "raw.execute('COMMIT')\n"
        "print('free', flush=True)\n"
        "sys.stdin.readline()\n"
    )

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._SCRIPT, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hears("locked")

    def free(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._hears("free")

    def _hears(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == word

    def __enter__(self) -> "OtherProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate("\n\n", timeout=30)


def integrity(path: Path) -> str:
    raw = sqlite3.connect(path)
    try:
        return str(raw.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        raw.close()
