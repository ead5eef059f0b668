"""What `Database.write` promises to those who wait for it."""

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from statebed import ADD, OtherProcess, Turnstile, add, count, lines, on_disk, open_database, stopped_clock, texts

from state.database import Database
from state.errors import ForkedError, MisuseError, StateBusyError, StateClosedError


async def behind_a_turnstile(db: Database, *functions: object) -> list[object]:
    """Queue functions while the writer is held, then let it go: they make one batch with it."""
    turnstile = Turnstile()
    first = asyncio.create_task(db.write(turnstile))
    await asyncio.to_thread(turnstile.entered.wait, 30)
    waiting = [asyncio.create_task(db.write(fn)) for fn in functions]
    await asyncio.sleep(0)
    turnstile.let_go()
    await first
    return list(await asyncio.gather(*waiting, return_exceptions=True))


def commits(db: Database) -> list[int]:
    seen: list[int] = []
    db.on_commit(lambda: seen.append(1))
    return seen


async def test_what_was_written_is_there_for_another_process_when_write_returns(db: Database) -> None:
    await db.write(add("a"))
    assert on_disk(db.path) == ["a"]


async def test_functions_run_in_the_order_given(db: Database) -> None:
    await behind_a_turnstile(db, *(add(str(n)) for n in range(100)))
    assert await db.read(texts) == [str(n) for n in range(100)]


async def test_those_that_wait_together_share_one_commit(db: Database) -> None:
    seen = commits(db)
    await behind_a_turnstile(db, *(add(str(n)) for n in range(100)))
    await db.data_version()  # comes after what listeners are told
    assert len(seen) == 1


async def test_a_batch_takes_at_most_256_functions(db: Database) -> None:
    seen = commits(db)
    await behind_a_turnstile(db, *(add(str(n)) for n in range(300)))
    await db.write(count)
    await db.data_version()
    assert len(seen) == 3  # 256, the other 45, the count


async def test_a_batch_ends_after_20_ms_of_work(path: Path) -> None:
    ticks = iter(range(10_000))
    db = open_database(path, monotonic=lambda: next(ticks) * 0.011)
    seen = commits(db)
    await behind_a_turnstile(db, *(add(str(n)) for n in range(6)))
    await asyncio.to_thread(db.close)
    assert len(seen) > 2


async def test_later_functions_of_a_batch_see_earlier_ones(db: Database) -> None:
    assert await behind_a_turnstile(db, add("a"), count, add("b"), count) == [1, 1, 2, 2]


async def test_a_function_that_fails_is_undone_alone(db: Database) -> None:
    def half(connection: Connection) -> None:
        connection.execute(ADD, {"text": "half"})
        raise ValueError("no")

    first, failed, last = await behind_a_turnstile(db, add("a"), half, add("b"))
    assert (first, repr(failed), last) == (1, "ValueError('no')", 2)
    assert on_disk(db.path) == ["a", "b"]


async def test_a_function_may_undo_a_part_of_itself(db: Database) -> None:
    def careful(connection: Connection) -> None:
        connection.execute(ADD, {"text": "receipt"})
        try:
            with connection.begin_nested():
                connection.execute(ADD, {"text": "seed"})
                connection.execute(ADD, {"text": "receipt"})
        except IntegrityError:
            connection.execute(ADD, {"text": "noted"})

    await behind_a_turnstile(db, add("a"), careful, add("b"))
    assert on_disk(db.path) == ["a", "receipt", "noted", "b"]


async def test_or_rollback_in_one_function_loses_nobody_elses_rows(db: Database) -> None:
    def rude(connection: Connection) -> None:
        connection.execute(text("INSERT OR ROLLBACK INTO notes (text) VALUES ('a')"))

    first, failed, last = await behind_a_turnstile(db, add("a"), rude, add("b"))
    assert (first, type(failed), last) == (1, IntegrityError, 2)
    assert on_disk(db.path) == ["a", "b"]


async def test_after_a_swallowed_or_rollback_nothing_commits_by_itself(db: Database) -> None:
    def rude(connection: Connection) -> None:
        try:
            connection.execute(text("INSERT OR ROLLBACK INTO notes (text) VALUES ('a')"))
        except IntegrityError:
            connection.execute(ADD, {"text": "stray"})

    _, failed, last = await behind_a_turnstile(db, add("a"), rude, add("b"))
    assert (type(failed), last) == (MisuseError, 2)
    assert on_disk(db.path) == ["a", "b"]


async def test_a_function_that_swallows_the_end_of_its_transaction_is_not_told_that_all_is_well(
    db: Database,
) -> None:
    def rude(connection: Connection) -> str:
        connection.execute(ADD, {"text": "c"})
        try:
            connection.execute(text("INSERT OR ROLLBACK INTO notes (text) VALUES ('a')"))
        except IntegrityError:
            return "fine"
        return "never"

    _, failed, _ = await behind_a_turnstile(db, add("a"), rude, add("b"))
    assert isinstance(failed, MisuseError)
    assert on_disk(db.path) == ["a", "b"]


async def test_a_deferred_foreign_key_fails_its_own_function_only(db: Database) -> None:
    def orphan(connection: Connection) -> None:
        connection.execute(lines.insert(), {"note": 999})

    _, failed, last = await behind_a_turnstile(db, add("a"), orphan, add("b"))
    assert (type(failed), last) == (sqlite3.IntegrityError, 2)
    assert on_disk(db.path) == ["a", "b"]


@pytest.mark.parametrize(
    "statement",
    ["COMMIT", "ROLLBACK", "BEGIN", "CREATE TABLE x (a)", "DROP TABLE notes", "ATTACH ':memory:' AS x"],
)
async def test_a_function_may_not_commit_or_change_the_layout(db: Database, statement: str) -> None:
    def rude(connection: Connection) -> None:
        connection.execute(ADD, {"text": "c"})
        connection.exec_driver_sql(statement)

    _, failed, last = await behind_a_turnstile(db, add("a"), rude, add("b"))
    assert (type(failed), last) == (MisuseError, 2)
    assert on_disk(db.path) == ["a", "b"]


async def test_a_function_may_not_commit_through_the_connection(db: Database) -> None:
    def rude(connection: Connection) -> None:
        connection.execute(ADD, {"text": "c"})
        connection.commit()

    def script(connection: Connection) -> None:
        connection.connection.driver_connection.executescript("DELETE FROM notes")  # type: ignore[union-attr]

    results = await behind_a_turnstile(db, add("a"), rude, script, add("b"))
    assert [type(one) for one in results] == [int, MisuseError, MisuseError, int]
    assert on_disk(db.path) == ["a", "b"]


async def test_a_savepoint_left_open_is_its_functions_mistake(db: Database) -> None:
    def sloppy(connection: Connection) -> None:
        connection.begin_nested()
        connection.execute(ADD, {"text": "c"})

    _, failed, last = await behind_a_turnstile(db, add("a"), sloppy, add("b"))
    assert (type(failed), last) == (MisuseError, 2)
    assert on_disk(db.path) == ["a", "b"]
    await db.write(add("c"))


async def test_an_open_result_does_not_leave_the_function(db: Database) -> None:
    with pytest.raises(MisuseError):
        await db.write(lambda connection: connection.execute(text("SELECT 1")))
    with pytest.raises(MisuseError):
        await db.read(lambda connection: (row for row in connection.execute(text("SELECT 1"))))


async def test_a_cancelled_caller_hears_the_verdict_first(db: Database) -> None:
    turnstile = Turnstile()
    first = asyncio.create_task(db.write(turnstile))
    await asyncio.to_thread(turnstile.entered.wait, 30)
    cancelled = asyncio.create_task(db.write(add("a")))
    await asyncio.sleep(0)
    for _ in range(3):  # however often
        cancelled.cancel()
        await asyncio.sleep(0)
    assert not cancelled.done()
    turnstile.let_go()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert on_disk(db.path) == ["a"]
    await first


async def test_a_cancelled_caller_whose_function_failed_is_still_cancelled(db: Database) -> None:
    turnstile = Turnstile()
    first = asyncio.create_task(db.write(turnstile))
    await asyncio.to_thread(turnstile.entered.wait, 30)
    cancelled = asyncio.create_task(db.write(lambda _: 1 / 0))
    await asyncio.sleep(0)
    cancelled.cancel()
    turnstile.let_go()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await first


async def test_a_write_times_out_only_after_its_verdict(db: Database) -> None:
    turnstile = Turnstile()
    threading.Timer(0.2, turnstile.let_go).start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await db.write(turnstile)


def test_threads_write_without_an_event_loop(db: Database) -> None:
    threads = [threading.Thread(target=db.write_sync, args=(add(str(n)),)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(db.read_sync(texts), key=int) == [str(n) for n in range(50)]


async def test_blocking_the_event_loop_is_refused(db: Database) -> None:
    with pytest.raises(MisuseError):
        db.write_sync(count)
    with pytest.raises(MisuseError):
        db.read_sync(count)


def test_a_function_that_waits_for_the_writer_is_refused_instead_of_hanging(db: Database) -> None:
    with pytest.raises(MisuseError):
        db.write_sync(lambda _: db.write_sync(count))
    with pytest.raises(MisuseError):
        db.read_sync(lambda _: db.read_sync(count))


async def test_listeners_hear_of_a_commit_after_it_can_be_read(db: Database) -> None:
    heard: list[list[str]] = []

    def listen() -> None:
        heard.append(on_disk(db.path))

    unsubscribe = db.on_commit(listen)
    await db.write(add("a"))
    await db.write(count)  # behind the callback
    unsubscribe()
    unsubscribe()
    await db.write(add("b"))
    await db.write(count)
    assert heard[0] == ["a"]
    assert "b" not in heard[-1]


async def test_a_listener_that_fails_stops_nobody(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    db.on_commit(lambda: 1 / 0)
    await db.write(add("a"))
    await db.write(add("b"))
    assert on_disk(db.path) == ["a", "b"]
    assert {getattr(record, "action", "") for record in caplog.records} == {"commit_listener_failed"}


async def test_a_lock_of_another_process_is_waited_for(db: Database) -> None:
    with OtherProcess(db.path) as other:
        waiting = asyncio.create_task(db.write(add("a")))
        await asyncio.to_thread(other.free)
        assert await waiting == 1


async def test_a_lock_that_is_never_freed_is_said_and_nothing_happened(db: Database) -> None:
    await db._between(lambda: db._raw.execute("PRAGMA busy_timeout=1").fetchall())
    with OtherProcess(db.path) as other:
        with pytest.raises(StateBusyError, match="locked by another process"):
            await db.write(add("a"))
        assert db.healthy is not None
        await asyncio.to_thread(other.free)
        await db.write(add("b"))
    assert db.healthy is None
    assert on_disk(db.path) == ["b"]


async def test_closing_answers_what_is_queued(path: Path) -> None:
    db = open_database(path, monotonic=stopped_clock)
    turnstile = Turnstile()
    first = asyncio.create_task(db.write(turnstile))
    await asyncio.to_thread(turnstile.entered.wait, 30)
    waiting = [asyncio.create_task(db.write(add(str(n)))) for n in range(10)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(db.close))
    turnstile.let_go()
    await asyncio.gather(first, *waiting)
    await closing
    assert len(on_disk(path)) == 10
    with pytest.raises(StateClosedError):
        await db.write(count)
    with pytest.raises(StateClosedError):
        await db.read(count)
    assert not path.with_name("state.db-wal").exists()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_is_refused_and_harms_nothing(db: Database) -> None:
    db.write_sync(add("a"))
    child = os.fork()
    if child == 0:
        try:
            db.write_sync(add("b"))
        except ForkedError:
            db.close()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    db.write_sync(add("c"))
    assert on_disk(db.path) == ["a", "c"]


async def test_the_journal_mode_and_the_durability_are_what_we_promise(db: Database) -> None:
    def settings() -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "auto_vacuum", "wal_autocheckpoint", "busy_timeout")
        return {name: db._raw.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    assert await db._between(settings) == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "auto_vacuum": 2,
        "wal_autocheckpoint": 0,
        "busy_timeout": 5000,
    }


async def test_space_is_given_back_in_slices(db: Database) -> None:
    await db.write(lambda c: [c.execute(ADD, {"text": str(n) * 2000}) for n in range(300)] and None)
    await db.write(lambda c: c.execute(text("DELETE FROM notes")) and None)
    before = await db._between(lambda: db._raw.execute("PRAGMA freelist_count").fetchone()[0])
    assert await db.give_back_space() == before - 100
    while await db.give_back_space():
        pass
    await db.write(add("the write lock is free"))


async def test_a_loop_that_ended_while_its_write_was_queued_stops_nobody(db: Database) -> None:
    turnstile = Turnstile()

    def short_life() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(db.write(turnstile))
        loop.run_until_complete(asyncio.to_thread(turnstile.entered.wait, 30))
        task.cancel()
        loop.call_soon(loop.stop)
        loop.run_forever()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()

    await asyncio.to_thread(short_life)
    turnstile.let_go()
    assert await db.write(add("a")) == 1
