"""What the page reads that the command line's lists do not hold. Functions on a connection; all bounded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from cron import jobbook, views
from cron.jobbook import JobRow
from cron.outcomes import OccurrenceKind, RunState
from delivery.targets import LOCAL
from seeding.inbox import InboundState
from seeding.sessions import list_sessions
from state.schema import accounts, inbound, local_messages, occurrences, runs, turns

MOST_IN_THREADS = 1000  # replies on one page, the newest ones

# --- jobs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A job's newest occurrence that has its outcome."""

    outcome: str
    due: datetime
    error: str | None
    run: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the database knows of jobs: rows by name; endings and runs that are not closed by job id."""

    rows: Mapping[str, JobRow]
    endings: Mapping[str, Ending]
    open_runs: Mapping[str, str]


def job_facts(conn: Connection, names: Sequence[str]) -> JobFacts:
    """Return what is remembered of these jobs."""
    wanted = set(names)
    rows = {row.name: row for row in jobbook.all_jobs(conn) if row.name in wanted}
    endings: dict[str, Ending] = {
        row.id: ending for row in rows.values() if (ending := _newest(conn, row.id)) is not None
    }
    still_open = select(runs.c.job_id, runs.c.id).where(runs.c.state != RunState.CLOSED)
    return JobFacts(rows=rows, endings=endings, open_runs={row.job_id: row.id for row in conn.execute(still_open)})


def _newest(conn: Connection, job_id: str) -> Ending | None:
    # One look per kind: each walks down an index and stops at the first row.
    found = [row for kind in OccurrenceKind if (row := conn.execute(_newest_of(job_id, kind)).first()) is not None]
    if not found:
        return None
    row = max(found, key=lambda one: (one.due, one.id))
    run = conn.execute(select(runs.c.id).where(runs.c.occurrence_id == row.id)).scalar_one_or_none()
    return Ending(outcome=row.outcome, due=row.due, error=row.error, run=run)


def _newest_of(job_id: str, kind: OccurrenceKind) -> Select[Any]:
    return (
        select(occurrences.c.id, occurrences.c.due, occurrences.c.outcome, occurrences.c.error)
        .where(occurrences.c.job_id == job_id, occurrences.c.kind == kind, occurrences.c.outcome.is_not(None))
        .order_by(occurrences.c.due.desc(), occurrences.c.n.desc())
        .limit(1)
    )


# --- accounts, sessions ---------------------------------------------------------------------------------


def account_states(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return what is known of each account, by its name: state, reason, updated_at."""
    return {row.name: dict(row._mapping) for row in conn.execute(select(accounts))}


def sessions(conn: Connection, *, most: int) -> list[dict[str, Any]]:
    """Return the conversations as `hermes-cron sessions --json` prints them, the newest first."""
    return [
        {
            "id": row.session.id,
            "keys": list(row.keys),
            "account": row.session.account,
            "chat": row.session.chat,
            "topic": row.session.topic,
            "root": row.session.root,
            "display_name": row.session.display_name,
            "turns": row.turns,
            "updated_at": views.iso(row.session.updated_at),
        }
        for row in list_sessions(conn, most=most)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPage:
    """Rows of `turns` (id, role, text, at, origin, author, job), oldest first; `has_older`: more lie before them."""

    turns: Sequence[Any]
    has_older: bool


def turn_page(conn: Connection, session_id: str, *, before: int | None, most: int) -> TurnPage:
    """Return a session's newest turns, or those before one."""
    here = select(turns.c.id, turns.c.role, turns.c.text, turns.c.at, turns.c.origin, turns.c.author, turns.c.job)
    here = here.where(turns.c.session_id == session_id)
    here = here if before is None else here.where(turns.c.id < before)
    rows = conn.execute(here.order_by(turns.c.id.desc()).limit(most + 1)).all()
    return TurnPage(turns=rows[:most][::-1], has_older=len(rows) > most)


# --- the local channels ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One message of a local channel. `is_ours`: the daemon wrote it; `job`: it is a brief of that job."""

    id: int
    thread: int | None
    author: str
    text: str
    at: datetime
    job: str | None
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPage:
    """A stretch of a channel: root messages, oldest first, each with what hangs under it.

    `last` is the newest id of the whole channel, from which what is new is told; `older` the id to ask before.
    """

    roots: Sequence[Post]
    threads: Mapping[int, Sequence[Post]]
    last: int
    older: int | None


def channels(conn: Connection) -> list[str]:
    """Return the channels in which something was said."""
    return list(conn.execute(select(local_messages.c.channel).distinct().order_by(local_messages.c.channel)).scalars())


def channel_page(conn: Connection, channel: str, *, before: int | None, most: int) -> ChannelPage:
    """Return a channel's newest messages (or those before one), each thread among them whole."""
    here = local_messages.c.channel == channel
    newest = select(local_messages.c.id, local_messages.c.thread).where(here).order_by(local_messages.c.id.desc())
    window = conn.execute(
        (newest if before is None else newest.where(local_messages.c.id < before)).limit(most + 1)
    ).all()
    shown = window[:most]
    roots = sorted({row.id if row.thread is None else row.thread for row in shown})
    last = conn.execute(select(func.coalesce(func.max(local_messages.c.id), 0)).where(here)).scalar_one()
    return ChannelPage(
        roots=_posts(conn.execute(select(local_messages).where(local_messages.c.id.in_(roots)))),
        threads=_by_root(_replies(conn, channel, roots)),
        last=int(last),
        older=shown[-1].id if len(window) > most else None,
    )


def posts_since(conn: Connection, channel: str, seen: int, *, most: int) -> list[Post]:
    """Return what was said in a channel after a message, oldest first."""
    new = select(local_messages).where(local_messages.c.channel == channel, local_messages.c.id > seen)
    return _posts(conn.execute(new.order_by(local_messages.c.id).limit(most)))


def being_answered(conn: Connection, channel: str) -> list[int | None]:
    """Return where an agent is writing in a channel: roots of threads, None for the channel itself."""
    asked = select(inbound.c.message).where(
        inbound.c.state.in_([InboundState.ROUTED, InboundState.ANSWERING]),
        inbound.c.account == LOCAL,
        inbound.c.chat == channel,
    )
    ids = [int(message) for message in conn.execute(asked.limit(50)).scalars() if message.isdecimal()]
    found = conn.execute(select(local_messages.c.thread).where(local_messages.c.id.in_(ids))).scalars()
    return sorted(set(found), key=lambda root: -1 if root is None else root)


def _replies(conn: Connection, channel: str, roots: Sequence[int]) -> list[Post]:
    if not roots:
        return []
    # Threads have no index of their own; a reply is younger than its root, so the channel's serves.
    later = select(local_messages).where(local_messages.c.channel == channel, local_messages.c.id > min(roots))
    under = later.where(local_messages.c.thread.in_(roots))
    return _posts(conn.execute(under.order_by(local_messages.c.id.desc()).limit(MOST_IN_THREADS)))


def _posts(rows: Iterable[Row[Any]]) -> list[Post]:
    """Return the rows as posts, oldest first."""
    found = [
        Post(
            id=row.id,
            thread=row.thread,
            author=row.author,
            text=row.text,
            at=row.at,
            job=row.job,
            is_ours=row.heard is None,
        )
        for row in rows
    ]
    return sorted(found, key=lambda post: post.id)


def _by_root(posts: Iterable[Post]) -> dict[int, list[Post]]:
    found: dict[int, list[Post]] = {}
    for post in posts:
        if post.thread is not None:
            found.setdefault(post.thread, []).append(post)
    return found
