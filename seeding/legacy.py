"""Reads the conversations of a Hermes home: its `sessions.json`, and the sessions and messages of its `state.db`.

Neither is ever written. What cannot be taken over is named in a sentence, never dropped in silence.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seeding.model import Role
from state import sqlite

KNOWN = ("slack", "telegram")


class LegacyUnreadable(ValueError):
    """The file as a whole cannot be read. The message is one sentence with the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTurn:
    """One message, as stored."""

    role: Role
    text: str
    at: datetime
    author: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacySession:
    """One conversation. `workspace` None: the file does not say. `user`: the person whose own it is, else None."""

    id: str
    platform: str
    workspace: str | None
    chat: str
    chat_type: str
    thread: str | None
    user: str | None
    display_name: str
    created_at: datetime | None
    updated_at: datetime | None
    expiry_finalized: bool
    is_ended: bool = False
    turns: tuple[LegacyTurn, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRead:
    """What was read, and one sentence for each entry that was not."""

    sessions: tuple[LegacySession, ...]
    refused: tuple[str, ...]


# --- sessions.json ------------------------------------------------------------------------------------


def read_sessions_json(data: bytes) -> LegacyRead:
    """Read a `sessions.json`. Keys that begin with "_" are remarks. Raises LegacyUnreadable."""
    try:
        document = json.loads(_decode(data))
    except ValueError as error:
        if isinstance(error, LegacyUnreadable):
            raise
        raise LegacyUnreadable(f"sessions.json is no JSON ({error}); was it cut off? Put a good copy back.") from error
    if not isinstance(document, dict):
        raise LegacyUnreadable("sessions.json holds no object of sessions by key, so it is not a session index.")
    return _gather((key, entry) for key, entry in document.items() if not key.startswith("_"))


def _decode(data: bytes) -> str:
    for mark, name in ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if data.startswith(mark):
            raise LegacyUnreadable(f"sessions.json is {name}, not UTF-8; save it as UTF-8.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise LegacyUnreadable(
            f"sessions.json is not UTF-8: byte {data[error.start]:#04x} in line {line} (perhaps it is Latin-1 or"
            " Windows-1252); save it as UTF-8."
        ) from error


# --- state.db -----------------------------------------------------------------------------------------


def read_hermes_database(path: Path) -> LegacyRead:
    """Read the gateway's sessions of a Hermes `state.db`, with their messages, oldest first.

    Stop Hermes, or read a copy. Raises LegacyUnreadable.
    """
    if not path.is_file():
        raise LegacyUnreadable(f"There is no file {path}.")
    try:
        with contextlib.closing(sqlite.connect_plain(path.resolve(), mode="ro")) as raw:
            raw.row_factory = sqlite3.Row
            return _gather(_entries(raw))
    except sqlite3.DatabaseError as error:
        raise LegacyUnreadable(f"{path} cannot be read as a Hermes database ({error}).") from error


def _entries(raw: sqlite3.Connection) -> Iterator[tuple[str, object]]:
    for row in raw.execute("SELECT * FROM sessions WHERE session_key IS NOT NULL ORDER BY started_at"):
        one = dict(row)
        origin = _json(one.get("origin_json"))
        yield (
            str(one["session_key"]),
            {
                "session_id": one["id"],
                "origin": {"platform": one.get("source"), "chat_id": one.get("chat_id"), **origin},
                "chat_type": one.get("chat_type"),
                "thread_id": one.get("thread_id"),
                "display_name": one.get("display_name"),
                "created_at": one.get("started_at"),
                "updated_at": one.get("last_activity_at") or one.get("started_at"),
                "expiry_finalized": bool(one.get("expiry_finalized")),
                "ended_at": one.get("ended_at"),
                "turns": tuple(_turns(raw, one["id"])),
            },
        )


def _turns(raw: sqlite3.Connection, session_id: object) -> Iterator[LegacyTurn]:
    for row in raw.execute("SELECT * FROM messages WHERE session_id = ? ORDER BY timestamp, id", (session_id,)):
        one = dict(row)
        text, at = one.get("content"), _instant(one.get("timestamp"))
        is_said = one.get("role") in tuple(Role) and one.get("active") in (None, 1)  # no tools, nothing taken back
        if is_said and isinstance(text, str) and text.strip() and at is not None:
            yield LegacyTurn(role=Role(one["role"]), text=text, at=at, author=None)


def _json(text: object) -> dict[str, Any]:
    with contextlib.suppress(ValueError, TypeError):
        found = json.loads(text)  # type: ignore[arg-type]
        if isinstance(found, dict):
            return found
    return {}


# --- one entry ----------------------------------------------------------------------------------------


def _gather(entries: Iterable[tuple[str, object]]) -> LegacyRead:
    sessions: list[LegacySession] = []
    refused: list[str] = []
    for key, entry in entries:
        try:
            sessions.append(_session(key, entry))
        except LegacyUnreadable as error:
            refused.append(f"{key}: {error}")
    return LegacyRead(sessions=tuple(sessions), refused=tuple(refused))


def _session(key: str, entry: object) -> LegacySession:
    if not isinstance(entry, Mapping):
        raise LegacyUnreadable("it is no object.")
    origin = entry.get("origin") if isinstance(entry.get("origin"), Mapping) else {}
    assert isinstance(origin, Mapping)
    platform = str(origin.get("platform") or entry.get("platform") or "").lower()
    if platform not in KNOWN:
        raise LegacyUnreadable(f"the platform {platform or '(none)'} is not one of {', '.join(KNOWN)}.")
    session_id, chat = _text(entry.get("session_id")), _text(origin.get("chat_id"))
    if session_id is None or chat is None:
        raise LegacyUnreadable("it names no session id or no chat.")
    chat_type = str(origin.get("chat_type") or entry.get("chat_type") or "dm")
    user, thread = _text(origin.get("user_id")), _text(origin.get("thread_id") or entry.get("thread_id"))
    return LegacySession(
        id=session_id,
        platform=platform,
        workspace=_text(origin.get("scope_id") or origin.get("guild_id")),
        chat=chat,
        chat_type=chat_type,
        thread=thread,
        # A person's own lane is one whose key ends with the person.
        user=user if user is not None and chat_type != "dm" and key.rsplit(":", 1)[-1] == user else None,
        display_name=_text(entry.get("display_name")) or _text(origin.get("chat_name")) or chat,
        created_at=_instant(entry.get("created_at")),
        updated_at=_instant(entry.get("updated_at")),
        expiry_finalized=bool(entry.get("expiry_finalized")),
        is_ended=entry.get("ended_at") is not None,
        turns=entry.get("turns", ()) if isinstance(entry.get("turns"), tuple) else (),
    )


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, (str, int)) and str(value) else None


def _instant(value: object) -> datetime | None:
    """Read ISO text or seconds since the epoch; what has no zone is UTC."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        if isinstance(value, (int, float)) and value > 0:
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return None
