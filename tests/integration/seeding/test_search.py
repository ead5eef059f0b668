"""Search finds what a person meant, whatever they type."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert

from seeding.search import LONGEST_QUERY, Hit, search, snippet_of, terms_of
from state.database import Database
from state.migrate import bring_up_to_date
from state.schema import sessions, turns

AT = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)

SAID = {
    "cpp": "The C++ build of the parser failed.",
    "c": "Vitamin C and the letter C are cheap.",
    "unbalanced": 'He said "unbalanced and left the quote open.',
    "operators": "To be AND not to be, OR NOT to be.",
    "foobar": "Set foo-bar in the file.",
    "braces": "An empty object is {} in JSON.",
    "star": "The glob * matches all; 100% of it, under_score too.",
    "rocket": "Deployed 🚀 at noon.",
    "ci": "CI is red again.",
    "german": "Fünf Prüfungen über Nacht.",
    "chinese": "昨晚构建失败了三次，请检查日志。",
    "japanese": "夜間ビルドで障害が発生しました。",
    "thai": "ระบบขัดข้องเมื่อคืนนี้",
    "arabic": "فشل البناء الليلة الماضية",
    "korean": "빌드가 어젯밤에 실패했습니다",
    "russian": "Ночная сборка упала дважды.",
    "rebuild": "A rebuild was done.",
    "force": "Use git push --force with care.",
    "channel": "Posted to #general by @kim.",
    "path": "See /var/log/hermes-cron/run.log for more.",
    "long": "x" * 10_000,
}


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    path = tmp_path_factory.mktemp("search") / "state.db"
    db = Database.open(path.resolve(), prepare=bring_up_to_date)
    db.write_sync(_fill)
    with contextlib.closing(db), db._readers._links[0].core as connection:
        yield connection


def _fill(connection: Connection) -> None:
    for place, (name, said) in enumerate(SAID.items()):
        _add(connection, name, said, AT + timedelta(minutes=place))


def _add(connection: Connection, name: str, said: str, at: datetime) -> None:
    row = {column.name: "" for column in sessions.c} | {"id": name, "origin": {}, "expiry_finalized": False}
    row |= {"created_at": at, "updated_at": at, "ended_at": None}
    connection.execute(insert(sessions).values(row))
    connection.execute(
        insert(turns).values(session_id=name, role="user", text=said, at=at, origin="cron", unconfirmed=False)
    )


def found(conn: Connection, words: str, **settings: object) -> list[str]:
    return [hit.session for hit in search(conn, words, **settings)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("C++", "cpp"),
        ("c++ build", "cpp"),
        ('"unbalanced', "unbalanced"),
        ('unbalanced"', "unbalanced"),
        ("AND OR NOT", "operators"),
        ("not AND", "operators"),
        ("foo-bar", "foobar"),
        ("foo bar", "foobar"),
        ('"foo bar"', "foobar"),
        ("{}", "braces"),
        ("*", "star"),
        ("100%", "star"),
        ("under_score", "star"),
        ("🚀", "rocket"),
        ("ci", "ci"),
        ("CI", "ci"),
        ("funf", "german"),
        ("FÜNF prüf", "german"),
        ("构建失败", "chinese"),
        ("日志", "chinese"),
        ("查", "chinese"),
        ("障害", "japanese"),
        ("ビルド", "japanese"),
        ("ビルド 障害が", "japanese"),
        ("ขัดข้อง", "thai"),
        ("البناء", "arabic"),
        ("빌드", "korean"),
        ("сборк", "russian"),
        ("СБОРКА", "russian"),
        ("ebuil", "rebuild"),
        ("--force", "force"),
        ("#general", "channel"),
        ("@kim?", "channel"),
        ("(parser)", "cpp"),
        ("run.log", "path"),
        ("/var/log", "path"),
        ("column:value OR failed", None),
        ("NEAR(failed parser)", None),
        ("^failed", "cpp"),
        ("x" * 10_000, "long"),
        ("   ", None),
        ("", None),
        ("\x00", None),
        ("\ud800", None),
        ("nowhere", None),
    ],
)
def test_what_was_meant_comes_first(conn: Connection, typed: str, first: str | None) -> None:
    assert found(conn, typed)[:1] == ([first] if first else [])


def test_the_sign_tells_c_plus_plus_from_c(conn: Connection) -> None:
    assert (found(conn, "C++"), found(conn, "C")) == (["cpp"], ["c", "cpp"])


def test_whole_words_come_before_beginnings_and_the_newest_first_among_equals(conn: Connection) -> None:
    assert found(conn, "build") == ["cpp"]
    assert found(conn, "the")[:2] == ["star", "foobar"]
    assert found(conn, "th", most=3) == ["star", "foobar", "unbalanced"]
    assert found(conn, "fail") == ["cpp"]


def test_only_sessions_that_the_caller_may_see_are_searched(conn: Connection) -> None:
    assert found(conn, "the", sessions=["cpp", "c"]) == ["c", "cpp"]
    assert found(conn, "the", sessions=[]) == []
    assert found(conn, "*", sessions=["cpp"]) == []


def test_a_snippet_is_one_line_around_the_find(conn: Connection) -> None:
    said = "line one\n\n" + "word " * 100 + "and here is the Needle in it " + "word " * 100
    snippet = snippet_of(said, ["needle"])
    assert ("the Needle in it" in snippet, "\n" in snippet, snippet[0], snippet[-1]) == (True, False, "…", "…")
    assert len(snippet) < 200
    assert search(conn, "unbalanced")[0].snippet == SAID["unbalanced"]
    assert search(conn, "unbalanced")[0] == Hit(
        turn=3, session="unbalanced", at=AT + timedelta(minutes=2), role="user", snippet=SAID["unbalanced"]
    )


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(typed=st.one_of(st.text(), st.text(alphabet="\"*()^:+-{}\\%_'ANDORTEa 障\x00\ud800🚀", max_size=60)))
@example(typed='"' * 5000)
@example(typed="a-" * 5000)
@example(typed=" ".join(f'"a{n}' for n in range(500)))
@example(typed="\\%_" * 3000)
@example(typed="e\u0301\u0302\u0303" * 100)
def test_no_input_raises(conn: Connection, typed: str) -> None:
    hits = search(conn, typed)
    assert len(hits) <= len(SAID)
    assert all(len(term.text) <= LONGEST_QUERY for term in terms_of(typed))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(SAID)), data=st.data())
def test_any_words_of_a_turn_find_it(conn: Connection, name: str, data: st.DataObject) -> None:
    words = SAID[name].split()
    start = data.draw(st.integers(0, len(words) - 1))
    piece = " ".join(words[start : start + data.draw(st.integers(1, 8))])
    assert name in found(conn, piece, most=1000)
