"""One open database per file and process, however many ask for it."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path

import pytest
from statebed import ROOT, add, count, on_disk, prepare, texts

from state.database import Database
from state.errors import DatabaseRefusedError, StateClosedError, StateDbReplacedError
from state.registry import Registry


@pytest.fixture
def registry() -> Registry:
    return Registry(prepare=prepare)


def test_two_leases_share_one_database_until_the_last_is_given_back(registry: Registry, path: Path) -> None:
    first, second = registry.acquire(path), registry.acquire(str(path))
    assert first.db is second.db
    first.close()
    first.close()  # gives back its own share only, however often
    second.db.write_sync(add("a"))
    database = second.db
    second.close()
    with pytest.raises(StateClosedError):
        database.write_sync(add("b"))


def test_a_lease_that_was_given_back_lends_nothing(registry: Registry, path: Path) -> None:
    lease, other = registry.acquire(path), registry.acquire(path)
    lease.close()
    with pytest.raises(StateClosedError):
        lease.db  # noqa: B018
    other.close()


def test_links_and_dots_lead_to_the_same_database(registry: Registry, path: Path) -> None:
    with registry.acquire(path) as lease:
        link = path.parent.with_name("link")
        link.symlink_to(path.parent)
        with registry.acquire(link / "state.db") as other, registry.acquire(path.parent / "." / "state.db") as dotted:
            assert other.db is lease.db is dotted.db


def test_fifty_threads_that_come_at_once_open_it_once(path: Path) -> None:
    opened: list[Path] = []

    def counting(one: Path) -> None:
        opened.append(one)
        prepare(one)

    registry = Registry(prepare=counting)
    barrier = threading.Barrier(50)

    def work(n: int) -> None:
        barrier.wait()
        with registry.acquire(path) as lease:
            lease.db.write_sync(add(str(n)))
            barrier.wait()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), len(on_disk(path))) == (1, 50)
    assert registry.leaks() == ()


def test_a_slow_opening_stalls_no_other_path(path: Path, tmp_path: Path) -> None:
    slow, go = threading.Event(), threading.Event()

    def slowly(one: Path) -> None:
        if one.parent.name == "slow":
            slow.set()
            assert go.wait(30)
        prepare(one)

    registry = Registry(prepare=slowly)
    leases: list[object] = []
    opening = threading.Thread(target=lambda: leases.append(registry.acquire(tmp_path / "slow" / "state.db")))
    opening.start()
    assert slow.wait(30)
    with registry.acquire(path) as lease:
        assert lease.db.read_sync(count) == 0
    go.set()
    opening.join()
    assert len(registry.drain()) == 1


def test_a_failed_opening_leaves_nothing_behind(path: Path) -> None:
    tries = iter([OSError("first"), None])

    def once_broken(one: Path) -> None:
        if (error := next(tries)) is not None:
            raise error
        prepare(one)

    registry = Registry(prepare=once_broken)
    with pytest.raises(DatabaseRefusedError, match="first"):
        registry.acquire(path)
    with registry.acquire(path) as lease:
        assert lease.db.read_sync(count) == 0


def test_a_replaced_file_is_opened_anew_and_the_old_one_is_never_lent_again(registry: Registry, path: Path) -> None:
    old = registry.acquire(path)
    old.db.write_sync(add("old"))
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        path.with_name(name).unlink()
    new = registry.acquire(path)
    assert new.db is not old.db
    new.db.write_sync(add("new"))
    assert old.db.read_sync(texts) == ["old"]  # who holds it may still look
    with pytest.raises(StateDbReplacedError):
        old.db.write_sync(add("lost"))
    old.close()
    new.db.write_sync(add("newer"))
    new.close()
    assert on_disk(path) == ["new", "newer"]
    assert registry.leaks() == ()


def test_if_the_replacement_cannot_be_opened_the_next_one_tries_afresh(registry: Registry, path: Path) -> None:
    old = registry.acquire(path)
    os.link(path, path.with_name("second.db"))
    with pytest.raises(DatabaseRefusedError):
        registry.acquire(path)
    path.with_name("second.db").unlink()
    new = registry.acquire(path)
    assert new.db is not old.db
    old.close()
    new.db.write_sync(add("a"))
    new.close()
    assert on_disk(path) == ["a"]


def test_leases_that_were_never_given_back_are_named_by_the_line_that_took_them(
    registry: Registry, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry.acquire(path)
    line = sys._getframe().f_lineno - 1
    assert [(leak.path, leak.site) for leak in registry.leaks()] == [(path, f"{__file__}:{line}")]
    registry.drain()
    assert "1 live database handles" in caplog.text
    with pytest.raises(StateClosedError):
        registry.acquire(path)


async def test_leases_work_with_async_with(registry: Registry, path: Path) -> None:
    async with await registry.acquire_async(path) as lease:
        assert lease.site.startswith(__file__)
        await lease.db.write(add("a"))
    assert registry.leaks() == ()
    assert on_disk(path) == ["a"]


async def test_a_cancelled_acquire_leaves_no_lease(path: Path) -> None:
    inside, go = threading.Event(), threading.Event()

    def slowly(one: Path) -> None:
        inside.set()
        assert go.wait(30)
        prepare(one)

    registry = Registry(prepare=slowly)
    asking = asyncio.create_task(registry.acquire_async(path))
    await asyncio.to_thread(inside.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go.set()
    # A second one comes through only after the first was opened, and holds the only lease in the end.
    lease = await registry.acquire_async(path)
    await asyncio.get_running_loop().shutdown_default_executor()
    assert [leak.site for leak in registry.leaks()] == [lease.site]
    lease.close()


def descriptors(path: Path) -> dict[str, int]:
    open_files = (os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd))
    return dict(Counter(Path(name).name for name in open_files if name.startswith(str(path.parent))))


def _is_link(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_after_300_threads_no_more_than_three_descriptors_a_file_are_open(registry: Registry, path: Path) -> None:
    keeper = registry.acquire(path)

    def run(n: int) -> None:
        with registry.acquire(path) as lease:
            lease.db.write_sync(add(str(n)))
            lease.db.read_sync(texts)
            for fails in (lease.db.write_sync, lease.db.read_sync):
                with pytest.raises(ZeroDivisionError):
                    fails(lambda _: 1 / 0)

    def runs(numbers: range) -> None:
        threads = [threading.Thread(target=run, args=(n,)) for n in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    runs(range(10))
    before = descriptors(path)
    runs(range(10, 300))
    assert descriptors(path) == before
    assert max(before[name] for name in ("state.db", "state.db-wal", "state.db-shm")) <= 3
    keeper.close()
    assert descriptors(path) == {}


def test_opening_and_closing_leaves_no_descriptor_and_no_thread(registry: Registry, path: Path) -> None:
    threads = threading.active_count()
    for _ in range(20):
        registry.acquire(path).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        gc.collect()
    assert (descriptors(path), threading.active_count()) == ({}, threads)


LOCALE = """
    import sys
    from pathlib import Path
    from statebed import add, prepare, texts
    from state.registry import Registry
    with Registry(prepare=prepare).acquire(Path(sys.argv[1])) as lease:
        lease.db.write_sync(add("\\u00fcber \\u6771\\u4eac \\U0001f680"))
        assert lease.db.read_sync(texts) == ["\\u00fcber \\u6771\\u4eac \\U0001f680"]
"""


def test_rows_keep_their_letters_under_any_locale(tmp_path: Path) -> None:
    import textwrap

    path = tmp_path / "zu Hause 家?#%" / "state.db"
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOCALE), str(path)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "LC_ALL": "C"},
        check=True,
    )
    assert on_disk(path) == ["über 東京 🚀"]


def test_the_default_layout_is_the_programs_own(path: Path) -> None:
    from state.schema import metadata

    with Registry().acquire(path) as lease:
        assert isinstance(lease.db, Database)
        names = lease.db.read_sync(
            lambda c: set(c.exec_driver_sql("SELECT name FROM sqlite_schema WHERE type = 'table'").scalars())
        )
    assert set(metadata.tables) <= names
