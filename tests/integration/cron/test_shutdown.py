"""A daemon that is stopped, or killed, in the middle of much work: nothing is lost, half done or done twice."""

import asyncio
import itertools
import random
import sqlite3
from collections import Counter
from pathlib import Path

from daemonbed import daemon, until
from processbed import Process
from processbed import until as until_there
from servers.slack import SlackServer

SECOND = 1_000_000  # instants are stored in microseconds
ENDED = ("sent", "degraded", "failed", "in_doubt", "held")
NO_MORE = "0 0 1 1 *"
SLOW = ("both", "posted")  # jobs that run every other second; the others run every second


def busy_jobs(texts: int, commands: int, schedule: str) -> str:
    """Return jobs that all run on that schedule; some of the commands leave a child behind."""
    jobs = ["defaults: {deliver: ['local:#general']}", "jobs:"]
    jobs += [f"  text-{n}: {{schedule: '{schedule}', text: 'text-{n} {{{{due}}}}'}}" for n in range(texts)]
    say = 'echo "$HERMES_CRON_JOB $HERMES_CRON_DUE"'
    for n in range(commands):
        script = f"sleep 300 & {say}" if n % 4 == 0 else f"sleep 0.{n % 10}; {say}"
        jobs.append(f"  command-{n}: {{schedule: '{schedule}', command: {script!r}, shell: true}}")
    return "\n".join(jobs) + "\n"


class Books:
    """What a stopped daemon left in its database."""

    def __init__(self, home: Path) -> None:
        self._conn = sqlite3.connect(f"file:{home / 'state.db'}?mode=ro", uri=True)
        self._conn.row_factory = sqlite3.Row

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        return self._conn.execute(sql, values).fetchall()

    def values(self, sql: str, *values: object) -> list:
        return [row[0] for row in self.rows(sql, *values)]

    def close(self) -> None:
        self._conn.close()

    def assert_sound(self) -> None:
        """Check what must hold whatever happened to the daemon."""
        self._assert_covered()
        self._assert_seeded()
        wrong = self.rows(
            "SELECT o.id, o.outcome, r.state FROM occurrences o LEFT JOIN runs r ON r.occurrence_id = o.id"
            " WHERE (o.outcome IS NULL) != (r.state IS NOT NULL AND r.state != 'closed')"
        )
        assert [tuple(row) for row in wrong] == []  # an outcome, or a run that the next start decides about
        assert self.values("PRAGMA integrity_check") == ["ok"]

    def _assert_covered(self) -> None:
        """Every instant of every job between its first row and its last is in exactly one row."""
        rows = self.rows(
            "SELECT job_id, due, coalesce(until, due) AS until, count FROM occurrences"
            " WHERE kind = 'scheduled' ORDER BY job_id, due"
        )
        for job, group in itertools.groupby(rows, key=lambda row: row["job_id"]):
            step = (2 if job in SLOW else 1) * SECOND
            spans = [(row["due"], row["until"], row["count"]) for row in group]
            for one, after in itertools.pairwise(spans):
                assert after[0] == one[1] + step, f"{job}: {one} is followed by {after}"
            assert [span for span in spans if span[2] != (span[1] - span[0]) // step + 1] == []

    def _assert_seeded(self) -> None:
        """A brief that arrived is in both of its conversations once, or its seed is owed on the books."""
        briefs = self.rows(
            "SELECT d.id, d.flat_seeded, d.thread_seeded, d.flat_session, d.thread_session FROM deliveries d"
            " WHERE d.kind = 'brief' AND d.state = 'sent'"
        )
        turns = Counter(
            (row["delivery_id"], row["session_id"])
            for row in self.rows("SELECT delivery_id, session_id FROM turns WHERE delivery_id IS NOT NULL")
        )
        owed = {tuple(row) for row in self.rows("SELECT delivery_id, surface FROM seeds WHERE state = 'owed'")}
        for brief in briefs:
            for surface in ("flat", "thread"):
                has_turn = turns[brief["id"], brief[f"{surface}_session"]] == 1
                assert has_turn == bool(brief[f"{surface}_seeded"]), dict(brief)
                assert has_turn or (brief["id"], surface) in owed, dict(brief)

    def open(self) -> dict[str, int]:
        """Count what is not finished: runs, deliveries, questions, seeds."""
        asked = "SELECT count(*) FROM {} WHERE state {} IN ({})"
        ended = ", ".join(f"'{state}'" for state in ENDED)
        counts = {
            "runs": asked.format("runs", "NOT", "'closed'"),
            "deliveries": asked.format("deliveries", "NOT", ended),
            "questions": asked.format("inbound", "", "'stored', 'routed', 'answering'"),
            "seeds": asked.format("seeds", "", "'owed'"),
        }
        return {name: self.values(sql)[0] for name, sql in counts.items()}

    def assert_posted_once(self) -> None:
        """Each brief that is called sent, and each answer, was posted locally once; nothing else was."""
        briefs = Counter(self.values("SELECT text FROM local_messages WHERE job IS NOT NULL AND channel = 'general'"))
        assert [text for text, count in briefs.items() if count > 1] == []
        sent = self.values(
            "SELECT r.brief FROM deliveries d JOIN runs r ON r.id = d.run_id"
            " WHERE d.kind = 'brief' AND d.state = 'sent' AND d.account = 'local' AND d.chat = 'general'"
        )
        assert (len(sent), set(briefs)) == (len(set(sent)), set(sent))


def books(home: Path) -> Books:
    return Books(home)


def left_over(folder: Path) -> list[int]:
    """Return the processes that commands of this folder's jobs left behind."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            names = environ.read_bytes()
            is_here = (environ.parent / "cwd").resolve() == folder.resolve()
        except OSError:
            continue
        if is_here and b"HERMES_CRON_RUN=" in names:
            found.append(int(environ.parent.name))
    return found


async def test_a_stop_in_the_middle_of_much_work_leaves_nothing_half_done(tmp_path, monkeypatch):
    monkeypatch.setattr("cron.daemon.COMPOSE_GRACE", 0.5)
    asked: list[str] = []
    is_over = asyncio.Event()
    async with daemon(tmp_path, busy_jobs(20, 20, "every 1s")) as running:

        async def chat(author: str, channel: str) -> None:
            for n in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count()):
                asked.append((await running.say(f"{author} asks {n}", channel, author=author))["id"])
                await asyncio.sleep(0.05)

        people = [asyncio.create_task(chat(f"p{n}", "general" if n % 2 else f"side-{n}")) for n in range(4)]
        await until(lambda: _count(running, "SELECT count(*) FROM runs WHERE brief IS NOT NULL", 60), "many briefs")
        stopping = asyncio.create_task(running.stop())
        await asyncio.sleep(0.3)  # people go on writing while it stops
        is_over.set()
        await asyncio.gather(*people)
        assert await stopping == 0
    assert left_over(tmp_path) == []
    first = books(tmp_path / "home")
    first.assert_sound()
    assert set(first.values("SELECT DISTINCT state FROM runs")) <= {"claimed", "composed", "closed"}
    assert first.values("SELECT count(*) FROM parts WHERE state = 'sending'") == [0]
    first.close()

    async with daemon(tmp_path, busy_jobs(20, 20, NO_MORE)) as running:
        await until(lambda: running.read(_is_all_done), "the end of what was open")
        assert await running.stop() == 0
    last = books(tmp_path / "home")
    last.assert_sound()
    last.assert_posted_once()
    assert last.open() == {"runs": 0, "deliveries": 0, "questions": 0, "seeds": 0}
    heard = last.values("SELECT message FROM inbound")
    assert sorted(heard, key=int) == sorted(asked, key=int)
    replies = last.values(
        "SELECT inbound_id FROM deliveries WHERE kind IN ('answer', 'notice') AND inbound_id IS NOT NULL"
    )
    assert len(replies) == len(set(replies)) == len(asked)
    last.close()


async def _count(running, sql: str, least: int) -> bool:
    return await running.read(lambda conn: conn.exec_driver_sql(sql).scalar_one()) >= least


def _is_all_done(conn) -> bool:
    asked = (
        "SELECT (SELECT count(*) FROM runs WHERE state != 'closed')"
        " + (SELECT count(*) FROM deliveries WHERE state IN ('pending', 'sending'))"
        " + (SELECT count(*) FROM inbound WHERE state IN ('stored', 'routed', 'answering'))"
        " + (SELECT count(*) FROM seeds WHERE state = 'owed')"
    )
    return conn.exec_driver_sql(asked).scalar_one() == 0


# --- kill -9 ---------------------------------------------------------------------------------------------

KILLS = 5
KILLED = """
    accounts:
      slack: {{bot_token: "{bot}", app_token: "{app}", base_url: "{url}"}}
    targets:
      ops: {{to: "slack:#ops", listen: all}}
    jobs:
      words: {{schedule: "{fast}", text: "words {{{{due}}}}", deliver: ["local:#general"]}}
      script: {{schedule: "{fast}", command: 'sleep 0.2; echo "script $HERMES_CRON_DUE"', shell: true,
               deliver: ["local:#general"]}}
      stays: {{schedule: "{fast}", command: 'sleep 300 & sleep 5; echo "stays $HERMES_CRON_DUE"', shell: true,
              deliver: ["local:#general"]}}
      both: {{schedule: "{slow}", text: "both {{{{due}}}}", deliver: [ops, "local:#general"], surface: thread}}
      posted: {{schedule: "{slow}", text: "posted {{{{due}}}}", deliver: ["slack:#general"]}}
"""


def _is_settled(home: Path) -> bool:
    read = Books(home)
    try:
        return not any(read.open().values())
    finally:
        read.close()


async def test_five_kills_at_random_moments_lose_nothing_and_post_nothing_twice(tmp_path):
    moments = random.Random(20261201)
    async with SlackServer() as server:

        def config(fast: str, slow: str) -> str:
            return KILLED.format(bot=server.bot_token, app=server.app_token, url=server.api_url, fast=fast, slow=slow)

        # A post is there at once and confirmed late: most kills fall in between, where nobody knows.
        server.fault("chat.postMessage", "slow", times=None, seconds=0.4)
        daemon = Process(tmp_path)
        daemon.write(config("every 1s", "every 2s"))
        asked = []
        for n in range(KILLS):
            await daemon.start()
            await server.connected()
            asked.append(server.say("#ops", "kim", f"question {n}"))
            await asyncio.sleep(moments.uniform(0.2, 3.0))
            asked.append(server.say("#ops", "alex", f"late question {n}"))
            await asyncio.sleep(moments.uniform(0.0, 0.1))
            await daemon.kill()
            killed = books(tmp_path / "home")
            killed.assert_sound()
            killed.close()
        server.clear_faults()
        daemon.write(config(NO_MORE, NO_MORE))
        await daemon.start()
        await server.connected()
        await until_there(lambda: _is_settled(tmp_path / "home"), "the end of what was open", daemon, every=0.5)
        assert await daemon.stop() == 0, daemon.log()
        posts = [post for post in server.posts() if post.text.startswith(("both 2", "posted 2"))]
    assert left_over(tmp_path) == []
    last = books(tmp_path / "home")
    last.assert_sound()
    last.assert_posted_once()
    assert last.open()["runs"] == 0
    # What is in doubt until Slack could be asked may have arrived or not; what is called sent has, and once.
    texts = Counter(post.text for post in posts)
    assert [text for text, count in texts.items() if count > 1] == []
    receipts = last.values("SELECT message FROM receipts WHERE account = 'slack'")
    assert len(receipts) == len(set(receipts))
    answered = last.rows("SELECT message, state FROM inbound WHERE account = 'slack'")
    assert {row["message"] for row in answered} >= set(asked)
    replies = last.values(
        "SELECT inbound_id FROM deliveries WHERE kind IN ('answer', 'notice') AND inbound_id IS NOT NULL"
    )
    assert len(replies) == len(set(replies))
    last.close()
