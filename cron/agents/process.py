"""Run one command as its own process group: fed by stdin, read with caps, and ended whole.

A command's children outlive it, and a killed daemon's commands outlive the daemon: so the group is told to
the caller before anything else, by its id and its leader's start ticks (a process id alone is used again).
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cron.agents.ports import Started
from state.clock import Sleep

OUTPUT_LIMIT = 1_000_000  # bytes of stdout that are kept
ERROR_LIMIT = 8_000  # bytes of stderr that are kept, the last ones
TERM_GRACE = 3.0  # seconds between SIGTERM and SIGKILL
DRAIN_GRACE = 1.0  # seconds in which a child that holds the pipes may still write after its leader ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended. `code` is negative for a signal."""

    code: int
    output: str
    errors: str
    is_cut: bool


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
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandNotStarted(_why_not_started(argv, cwd, error)) from error
    try:
        await started(process.pid, start_ticks(process.pid))
        output, errors = _Tail(OUTPUT_LIMIT, keep_first=True), _Tail(ERROR_LIMIT, keep_first=False)
        assert process.stdout is not None and process.stderr is not None
        readers = [
            asyncio.ensure_future(output.read(process.stdout)),
            asyncio.ensure_future(errors.read(process.stderr)),
            asyncio.ensure_future(_feed(process, stdin)),
        ]
        try:
            code = await process.wait()
            await asyncio.wait(readers, timeout=DRAIN_GRACE)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        return Ended(code=code, output=output.text(), errors=errors.text(), is_cut=output.is_cut)
    finally:
        # What the command left behind in its group would outlive the run: end it on every way out.
        await _end_shielded(process, sleep)


async def _end_shielded(process: asyncio.subprocess.Process, sleep: Sleep) -> None:
    ending = asyncio.ensure_future(_end(process, sleep))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        signal_group(process.pid, signal.SIGKILL)
        await ending
        raise


async def _end(process: asyncio.subprocess.Process, sleep: Sleep) -> None:
    if process.returncode is None:
        await end_group(process.pid, sleep)
    else:
        signal_group(process.pid, signal.SIGKILL)
    await process.wait()
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    assert process.stdin is not None
    # A command that does not read its input closes the pipe: that is its right.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


class _Tail:
    """Reads a stream to its end and keeps a bounded piece of it."""

    def __init__(self, limit: int, *, keep_first: bool) -> None:
        self._limit = limit
        self._keep_first = keep_first
        self._kept = bytearray()
        self.is_cut = False

    async def read(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(65_536):
            self._kept += chunk
            if len(self._kept) > self._limit:
                self.is_cut = True
                del self._kept[slice(self._limit, None) if self._keep_first else slice(0, -self._limit)]

    def text(self) -> str:
        return self._kept.decode("utf-8", errors="replace")


def _why_not_started(argv: Sequence[str], cwd: Path | None, error: OSError | ValueError) -> str:
    name = argv[0] if argv else ""
    if cwd is not None and not cwd.is_dir():
        return f"The working folder {cwd} does not exist; set `cwd:` to one that does."
    if isinstance(error, FileNotFoundError):
        return f"The command {name!r} was not found; give its full path, or put it on PATH."
    if isinstance(error, PermissionError):
        return f"The command {name!r} may not be executed; check its mode (chmod +x)."
    return f"The command {name!r} could not be started: {error}."
