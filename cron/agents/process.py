"""Run one command as its own process group: fed by stdin, read with caps, and ended whole.

A command's children outlive it, and a killed daemon's commands outlive the daemon: so the group is told to
the caller before anything else, by its id and its leader's start ticks (a process id alone is used again).
"""

import asyncio
import contextlib
import errno
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cron.agents.ports import Started
from state.clock import Sleep

OUTPUT_LIMIT = 1_004_096  # bytes of stdout that are kept
ERROR_LIMIT = 12_096  # bytes of stderr that are kept, the last ones
TERM_GRACE = 3.0  # seconds between SIGTERM and SIGKILL
DRAIN_GRACE = 1.0  # seconds in which a child that holds the pipes may still write after its leader ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended. `code` is negative for a signal."""

    code: int
    output: str
    errors: str
    is_cut: bool  # there was more output: its end is missing
    is_errors_cut: bool = False  # there were more errors: their beginning is missing


class CommandNotStarted(Exception):
    """The command could not be started; the message is one sentence."""


def start_ticks(pid: int) -> int:
    """Return when a process began, in clock ticks since boot (proc(5), field 22); 0 where that cannot be known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to a process group; False if there is none."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def end_group(group: int, sleep: Sleep, grace: float = TERM_GRACE) -> None:
    """End a process group whole: SIGTERM, then SIGKILL for what is left."""
    if not signal_group(group, signal.SIGTERM):
        return
    waited = 0.0
    while waited < grace:
        await sleep(0.05)
        waited += 0.05
        if not _has_members(group):
            return
    signal_group(group, signal.SIGKILL)


async def end_stale_group(group: int, ticks: int, run_id: str, sleep: Sleep) -> bool:
    """End the group that an earlier daemon started for this run; True if something of it was still there.

    The leader is known by its start ticks; where it is gone, a member by the run's id in its environment: the
    number alone may belong to somebody else by now.
    """
    is_ours = ticks != 0 and start_ticks(group) == ticks
    if not is_ours and not any(_carries(pid, run_id) for pid in _members(group)):
        return False
    await end_group(group, sleep)
    return True


def _members(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(int(stat.parent.name))
    return found


def _carries(pid: int, run_id: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"HERMES_CRON_RUN={run_id}".encode() in environ.split(b"\0")


async def run_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None,
    stdin: bytes,
    started: Started,
    sleep: Sleep,
) -> Ended:
    """Run a command to its end. Raises CommandNotStarted. When cancelled, the whole group is ended first."""
    loop = asyncio.get_running_loop()
    try:
        transport, child = await loop.subprocess_exec(
            _Child,
            *map(_bytes, argv),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={_bytes(name): _bytes(value) for name, value in env.items()},
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandNotStarted(_why_not_started(argv, cwd, error)) from error
    group = transport.get_pid()
    try:
        await started(group, start_ticks(group))
        _feed(transport, stdin)
        await child.exited.wait()
        # What it left in the background may hold the pipes for ever: it has a moment to write, then it is ended.
        await _within(child.drained.wait(), DRAIN_GRACE)
        code = transport.get_returncode()
        assert code is not None, "the process has exited"
        return Ended(
            code=code,
            output=child.output.text(),
            errors=child.errors.text(),
            is_cut=child.output.is_cut,
            is_errors_cut=child.errors.is_cut,
        )
    finally:
        await _end_shielded(group, child, transport, sleep)


def _bytes(text: str) -> bytes:
    """Spell a word for another program as it stands in jobs.yaml, whatever the locale says."""
    return text.encode("utf-8", "surrogateescape")


class _Child(asyncio.SubprocessProtocol):
    """Keeps what a process writes, and knows of its exit whoever still holds its pipes.

    `asyncio.subprocess.Process.wait` does not: it returns only when all pipes are closed, so a process that moved
    away and kept one would hold the run for ever.
    """

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self.output = _Kept(OUTPUT_LIMIT, keep_first=True)
        self.errors = _Kept(ERROR_LIMIT, keep_first=False)
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.output if fd == 1 else self.errors).add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()


class _Kept:
    """A bounded piece of a stream: its beginning, or its end."""

    def __init__(self, limit: int, *, keep_first: bool) -> None:
        self._limit = limit
        self._keep_first = keep_first
        self._bytes = bytearray()
        self.is_cut = False

    def add(self, data: bytes) -> None:
        self._bytes += data
        if len(self._bytes) > self._limit:
            self.is_cut = True
            del self._bytes[slice(self._limit, None) if self._keep_first else slice(0, -self._limit)]

    def text(self) -> str:
        return self._bytes.decode("utf-8", errors="replace")


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    """Hand the input over. A command that does not read it closes the pipe: that is its right."""
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(stdin)
    pipe.close()  # after what is buffered


async def _within(waiting: Coroutine[Any, Any, object], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting


async def _end_shielded(group: int, child: _Child, transport: asyncio.SubprocessTransport, sleep: Sleep) -> None:
    """What the command left behind in its group would outlive the run: end it on every way out."""
    ending = asyncio.ensure_future(_end(group, child, sleep))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        signal_group(group, signal.SIGKILL)
        await ending
        raise
    finally:
        transport.close()


async def _end(group: int, child: _Child, sleep: Sleep) -> None:
    if child.exited.is_set():
        signal_group(group, signal.SIGKILL)
    else:
        await end_group(group, sleep)
    await child.exited.wait()


def _why_not_started(argv: Sequence[str], cwd: Path | None, error: OSError | ValueError) -> str:
    name = argv[0] if argv else ""
    if cwd is not None and not cwd.is_dir():
        return f"The working folder {cwd} does not exist; set `cwd:` to one that does."
    if isinstance(error, FileNotFoundError):
        return f"The command {name!r} was not found; give its full path, or put it on PATH."
    if isinstance(error, PermissionError):
        return f"The command {name!r} may not be executed; check its mode (chmod +x)."
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return f"The command {name!r} is no program; begin it with a line such as #!/usr/bin/env python3."
    return f"The command {name!r} could not be started: {error}."
