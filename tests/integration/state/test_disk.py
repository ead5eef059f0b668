"""A disk that is full, or that fails in the middle of a commit."""

import asyncio
import contextlib
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection
from statebed import ADD, ROOT, Turnstile, add, on_disk

from state.database import Database
from state.errors import DiskFailedError, DiskFullError, StateUnknown
from state.identity import wal_of


@contextlib.contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Let writes beyond that many bytes fail, as on a disk with no room left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def big(connection: Connection) -> None:
    connection.execute(ADD, {"text": "x" * 100_000})


async def test_a_full_disk_fails_the_guilty_function_only(db: Database) -> None:
    await db._between(lambda: db._raw.execute("PRAGMA max_page_count=20").fetchall())
    turnstile = Turnstile()
    first = asyncio.create_task(db.write(turnstile))
    await asyncio.to_thread(turnstile.entered.wait, 30)
    waiting = [asyncio.create_task(db.write(fn)) for fn in (add("a"), big, add("b"))]
    await asyncio.sleep(0)
    turnstile.let_go()
    await first
    a, failed, b = await asyncio.gather(*waiting, return_exceptions=True)
    assert (a, type(failed), b) == (1, DiskFullError, 2)
    assert "Free some space" in str(failed)
    assert on_disk(db.path) == ["a", "b"]


async def test_a_commit_that_found_no_room_did_not_happen_and_work_goes_on(db: Database) -> None:
    await db.write(add("a"))
    with no_file_larger_than(wal_of(db.path).stat().st_size + 40_000), pytest.raises(DiskFailedError):
        await db.write(big)
    await db.write(add("b"))
    assert on_disk(db.path) == ["a", "b"]
    assert db.healthy is None


async def test_a_group_whose_commit_found_no_room_is_tried_one_by_one(db: Database) -> None:
    turnstile = Turnstile()
    first = asyncio.create_task(db.write(turnstile))
    await asyncio.to_thread(turnstile.entered.wait, 30)
    waiting = [asyncio.create_task(db.write(fn)) for fn in (add("a"), big, add("b"))]
    await asyncio.sleep(0)
    with no_file_larger_than(wal_of(db.path).stat().st_size + 60_000):
        turnstile.let_go()
        await first
        a, failed, b = await asyncio.gather(*waiting, return_exceptions=True)
    assert (a, type(failed), b) == (1, DiskFailedError, 2)
    assert on_disk(db.path) == ["a", "b"]


async def test_where_not_even_a_marker_can_be_stored_the_state_is_unknown_for_good(db: Database) -> None:
    await db.write(add("a"))
    with no_file_larger_than(1), pytest.raises(StateUnknown, match="unknown what was stored"):
        await db.write(add("b"))
    assert db.healthy is not None
    with pytest.raises(StateUnknown):
        await db.write(add("c"))


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
/* fsync fails once when the file FAULTS exists. */
static int faulty(void) {
    const char *name = getenv("FAULTS");
    if (!name || access(name, F_OK)) return 0;
    if (unlink(name)) return 0;
    return 1;
}
int fsync(int fd) {
    if (faulty()) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    if (faulty()) { errno = EIO; return -1; }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""

KILLED_AFTER_A_FAILED_FSYNC = """
    import os, pathlib, signal, sys
    from statebed import add, open_database
    from state.errors import DiskFailedError
    db = open_database(pathlib.Path(sys.argv[1]))
    db.write_sync(add("a"))
    pathlib.Path(os.environ["FAULTS"]).touch()
    try:
        db.write_sync(add("told that it failed"))
    except DiskFailedError:
        print("failed", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler to make fsync fail")
def test_a_write_that_was_told_to_have_failed_is_not_there_after_a_crash(path: Path, tmp_path: Path) -> None:
    source, library, faults = tmp_path / "shim.c", tmp_path / "shim.so", tmp_path / "faults"
    source.write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED_AFTER_A_FAILED_FSYNC), str(path)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "LD_PRELOAD": str(library), "FAULTS": str(faults)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "failed\n", done.stderr
    assert on_disk(path) == ["a"]
