"""Two daemons on one home: the second is told who is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from statebed import ROOT

from state.errors import HomeLockedError
from state.lock import HomeLock

HOLD = (
    "import os, sys, pathlib\n"
    "from state.lock import HomeLock\n"
    "lock = HomeLock.acquire(pathlib.Path(sys.argv[1]), pid=os.getpid())\n"
    "print(os.getpid(), flush=True)\n"
    "sys.stdin.readline()\n"
)


class Daemon:
    """Another process that holds the home's lock."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(home)],
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_a_second_daemon_is_refused_with_the_pid_of_the_first(home: Path) -> None:
    daemon = Daemon(home)
    assert HomeLock.is_alive(home) == daemon.pid
    with pytest.raises(HomeLockedError, match=f"in use by process {daemon.pid}") as caught:
        HomeLock.acquire(home, pid=1)
    assert caught.value.pid == daemon.pid
    daemon.kill()


def test_a_killed_daemon_holds_nothing(home: Path) -> None:
    Daemon(home).kill()
    assert HomeLock.is_alive(home) is None
    with HomeLock.acquire(home, pid=os.getpid()):
        assert HomeLock.is_alive(home) == os.getpid()
    assert HomeLock.is_alive(home) is None


def test_no_daemon_lives_in_a_home_that_does_not_exist(home: Path) -> None:
    assert HomeLock.is_alive(home) is None
    assert not home.exists()


def test_two_names_of_one_home_have_one_lock(home: Path) -> None:
    link = home.with_name("link")
    with HomeLock.acquire(home, pid=7):
        link.symlink_to(home)
        assert HomeLock.is_alive(link) == 7
        other = home.with_name("other")
        other.mkdir()
        (other / "state.db").symlink_to(home / "state.db")
        with pytest.raises(HomeLockedError):
            HomeLock.acquire(other, pid=8)


def test_looking_for_a_daemon_takes_nothing_away_from_it(home: Path) -> None:
    with HomeLock.acquire(home, pid=7) as lock:
        for _ in range(3):
            assert HomeLock.is_alive(home) == 7
        (home / "state.lock").read_bytes()  # a POSIX lock would be gone now
        with pytest.raises(HomeLockedError):
            HomeLock.acquire(home, pid=8)
        lock.release()
        lock.release()
    assert HomeLock.is_alive(home) is None


def test_somebody_who_only_looks_keeps_no_daemon_from_starting(home: Path) -> None:
    HomeLock.acquire(home, pid=1).release()
    script = (
        "import sys, pathlib\nfrom state.lock import HomeLock\n"
        "while True:\n    HomeLock.is_alive(pathlib.Path(sys.argv[1])); print('x', flush=True)\n"
    )
    lookers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(home)], env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    for looker in lookers:
        assert looker.stdout is not None
        looker.stdout.readline()
    for _ in range(20):
        HomeLock.acquire(home, pid=1).release()
    for looker in lookers:
        looker.kill()
        looker.communicate()


def test_a_childs_child_does_not_keep_the_lock(home: Path) -> None:
    lock = HomeLock.acquire(home, pid=1)
    script = "print('here', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it runs: close-on-exec has done its work
        lock.release()
        holder = HomeLock.is_alive(home)
        child.communicate(b"\n")
    assert holder is None


def test_the_lock_file_stays(home: Path) -> None:
    HomeLock.acquire(home, pid=1).release()
    before = (home / "state.lock").stat().st_ino
    HomeLock.acquire(home, pid=2).release()
    assert (home / "state.lock").stat().st_ino == before
    assert oct(home.stat().st_mode & 0o777) == "0o700"
