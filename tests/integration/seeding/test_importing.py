"""Conversations of a Hermes home are taken over once, and whatever is not is said."""

import contextlib
import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection

from cron import views
from seeding import sessions
from seeding.importing import ImportReport, Login, import_sessions
from seeding.legacy import LegacyRead, LegacyUnreadable, read_hermes_database, read_sessions_json
from state.database import Database
from state.migrate import bring_up_to_date

AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
LOGINS = {"slack": Login(account="work", workspace="T1"), "telegram": Login(account="telegram", workspace="777")}


FORUM = {"platform": "telegram", "chat_id": "-100", "chat_type": "group"}


def entry(session: str, **origin: object) -> dict[str, object]:
    return {
        "session_id": session,
        "display_name": f"Name of {session}",
        "created_at": "2026-05-01T10:00:00",
        "updated_at": "2026-06-01T10:00:00+02:00",
        "expiry_finalized": session == "s1",
        "origin": origin,
    }


INDEX = {
    "_README": "written by the gateway; do not edit",
    "_x": {"session_id": "never"},
    "agent:main:slack:group:T1:C1:100.1": entry(
        "s1", platform="slack", chat_id="C1", chat_type="group", user_id="U1", thread_id="100.1", scope_id="T1"
    ),
    "agent:main:slack:group:T1:C1:U1": entry(
        "s2", platform="slack", chat_id="C1", chat_type="group", user_id="U1", scope_id="T1"
    ),
    "agent:main:telegram:dm:42": entry("t1", platform="telegram", chat_id=42, chat_type="dm", user_id="42"),
    "agent:main:telegram:group:-100:7": entry(
        "t2", platform="telegram", chat_id="-100", chat_type="group", thread_id=7
    ),
    "agent:main:telegram:group:-100:1": entry(
        "t3", platform="telegram", chat_id="-100", chat_type="group", thread_id="1"
    ),
    "agent:main:discord:dm:9": entry("d1", platform="discord", chat_id="9"),
    "agent:main:telegram:dm:0": entry("t4", platform="telegram"),
    "agent:main:broken": ["no object"],
}


@contextlib.contextmanager
def home(tmp_path: Path):
    db = Database.open((tmp_path / "state.db").resolve(), prepare=bring_up_to_date)
    with contextlib.closing(db):
        yield db


def taken(db: Database, read: LegacyRead, logins: object = LOGINS) -> ImportReport:
    return db.write_sync(lambda conn: import_sessions(conn, read, logins, at=AT))  # type: ignore[arg-type]


def listed(conn: Connection) -> dict[str, tuple[str, ...]]:
    return {row.session.id: tuple(row.keys) for row in sessions.list_sessions(conn)}


def test_an_index_is_taken_over_once_and_the_rest_is_named(tmp_path: Path) -> None:
    read = read_sessions_json(b"\xef\xbb\xbf" + json.dumps(INDEX).encode())
    with home(tmp_path) as db:
        first, second = taken(db, read), taken(db, read)
        keys = db.read_sync(listed)
        thread = db.read_sync(lambda conn: sessions.get(conn, "s1"))
    assert (first.taken, first.already, second.taken, second.already) == (5, 0, 0, 5)
    assert keys == {
        "s1": ("thread:work:T1:C1:100.1",),
        "s2": ("flat:work:T1:C1:user=U1",),
        "t1": ("flat:telegram:777:42",),
        "t2": ("flat:telegram:777:-100:topic=7",),
        "t3": ("flat:telegram:777:-100",),
    }
    assert [line.split(": ")[0] for line in first.refused] == [
        "agent:main:discord:dm:9",
        "agent:main:telegram:dm:0",
        "agent:main:broken",
    ]
    assert "discord is not one of slack, telegram" in first.refused[0]
    assert thread is not None
    assert (thread.display_name, thread.root, thread.expiry_finalized) == ("Name of s1", "100.1", True)
    assert (thread.created_at, thread.updated_at) == (
        datetime(2026, 5, 1, 10, tzinfo=UTC),
        datetime(2026, 6, 1, 8, tzinfo=UTC),
    )


def test_an_account_that_is_not_there_or_never_connected_is_said(tmp_path: Path) -> None:
    read = read_sessions_json(json.dumps(INDEX).encode())
    with home(tmp_path) as db:
        report = taken(db, read, {"telegram": Login(account="tg", workspace=None)})
    said = " ".join(report.refused)
    assert report.taken == 0
    assert "has no slack account" in said
    assert "tg has not connected yet; start the daemon once" in said


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{}".encode("utf-16"), "is UTF-16"),
        ('{\n"a": "caf\xe9"}'.encode("latin-1"), "byte 0xe9 in line 2"),
        (b'{"a": ', "was it cut off"),
        (b"[]", "no object of sessions"),
        (b"", "no JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(LegacyUnreadable, match=words):
        read_sessions_json(data)


def hermes(path: Path) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, user_id TEXT, session_key TEXT, chat_id TEXT,"
            " chat_type TEXT, thread_id TEXT, display_name TEXT, origin_json TEXT, expiry_finalized INTEGER,"
            " started_at REAL, ended_at REAL)"
        )
        raw.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL,"
            " active INTEGER)"
        )
        key = "agent:main:telegram:dm:42"
        for row in (
            ("old", "telegram", "42", key, "42", "dm", None, "Kim", None, 0, 1_780_000_000.0, 1_780_000_500.0),
            ("new", "telegram", "42", key, "42", "dm", None, "Kim", None, 0, 1_780_001_000.0, None),
            ("cli", "cli", None, None, None, None, None, None, None, 0, 1_780_001_000.0, None),
        ):
            raw.execute(f"INSERT INTO sessions VALUES ({','.join('?' * 12)})", row)
        for row in (
            ("old", "user", "how full is db-3?", 1_780_000_001.5, 1),
            ("old", "tool", "df -h", 1_780_000_002.0, 1),
            ("old", "assistant", "93 %, 東京", 1_780_000_003.0, 1),
            ("old", "assistant", "taken back", 1_780_000_004.0, 0),
            ("old", "assistant", "", 1_780_000_005.0, 1),
            ("new", "user", "and now?", 1_780_001_001.0, None),
        ):
            raw.execute("INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?,?,?,?,?)", row)
        raw.commit()
    return path


def test_a_database_is_taken_over_with_its_messages_and_the_open_session_has_the_key(tmp_path: Path) -> None:
    theirs = hermes(tmp_path / "hermes.db")
    before = theirs.read_bytes()
    with home(tmp_path) as db:
        report = taken(db, read_hermes_database(theirs))
        again = taken(db, read_hermes_database(theirs))
        keys = db.read_sync(listed)
        said = db.read_sync(lambda conn: views.transcript(conn, "old"))
    assert (report.taken, report.turns, again.taken, again.already) == (2, 3, 0, 2)
    assert keys == {"new": ("flat:telegram:777:42",), "old": ()}
    assert said is not None
    assert [(turn["role"], turn["text"], turn["origin"]) for turn in said] == [
        ("user", "how full is db-3?", "inbound"),
        ("assistant", "93 %, 東京", "answer"),
    ]
    assert theirs.read_bytes() == before


def test_what_is_no_hermes_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("hello" * 1000)
    with pytest.raises(LegacyUnreadable, match="cannot be read as a Hermes database"):
        read_hermes_database(tmp_path / "x.db")
    with pytest.raises(LegacyUnreadable, match="There is no file"):
        read_hermes_database(tmp_path / "none.db")
