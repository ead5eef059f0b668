"""Commands are run as a group, read with caps, and ended whole, whatever they do with their pipes."""

import asyncio
import os
import signal

import pytest

from cron.agents.process import OUTPUT_LIMIT, CommandNotStarted, Ended, end_stale_group, run_process, start_ticks
from state.clock import system_sleep


async def nothing(group: int, ticks: int) -> None:
    """Nobody needs to know."""


async def run(script: str, *, stdin: bytes = b"", started=nothing) -> Ended:
    env = {"PATH": os.environ["PATH"]}
    return await run_process(["sh", "-c", script], env=env, cwd=None, stdin=stdin, started=started, sleep=system_sleep)


async def test_output_errors_and_exit_code_are_told_apart():
    ended = await run("cat; echo oops >&2; exit 4", stdin="grüße 🙂".encode())
    assert (ended.code, ended.output, ended.errors) == (4, "grüße 🙂", "oops\n")


async def test_a_command_that_does_not_read_a_long_input_ends_well():
    ended = await run("exec <&-; echo fine", stdin=b"x" * 3_000_000)
    assert (ended.code, ended.output) == (0, "fine\n")


async def test_output_beyond_the_limit_is_cut_and_said_so():
    ended = await run(f"head -c {OUTPUT_LIMIT * 3} /dev/zero | tr '\\0' x; echo end >&2")
    assert (len(ended.output), ended.is_cut, ended.errors) == (OUTPUT_LIMIT, True, "end\n")


async def test_bytes_that_are_no_text_are_shown_as_such():
    assert (await run(r"printf 'a\377b'")).output == "a�b"


async def test_a_child_left_in_the_background_is_ended_and_holds_nothing_up():
    ended = await asyncio.wait_for(run("sleep 300 & echo $!"), 10)
    await gone(int(ended.output))


async def test_a_child_that_moved_to_a_session_of_its_own_does_not_hold_the_run():
    ended = await asyncio.wait_for(run("setsid sleep 60 & echo $!"), 10)
    assert ended.code == 0
    os.kill(int(ended.output), signal.SIGKILL)


async def test_cancelled_before_it_was_told_about_it_is_ended_all_the_same():
    groups = []

    async def hang(group: int, ticks: int) -> None:
        groups.append(group)
        await asyncio.Event().wait()

    task = asyncio.create_task(run("sleep 300", started=hang))
    while not groups:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)
    await gone(groups[0])


async def test_a_command_that_ignores_sigterm_is_killed():
    ready = asyncio.Event()

    async def started(group: int, ticks: int) -> None:
        ready.set()

    task = asyncio.create_task(run("trap '' TERM; while :; do sleep 1; done", started=started))
    await ready.wait()
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)


@pytest.mark.parametrize(
    ("mode", "said"), [(0o644, "may not be executed"), (0o755, "is no program"), (None, "not found")]
)
async def test_a_command_that_cannot_be_started_says_why(tmp_path, mode, said):
    script = tmp_path / "script"
    if mode is not None:
        script.write_text("hello")
        script.chmod(mode)
    with pytest.raises(CommandNotStarted, match=said):
        await run_process([str(script)], env={}, cwd=None, stdin=b"", started=nothing, sleep=system_sleep)


async def test_a_working_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CommandNotStarted, match="nowhere does not exist"):
        await run_process(["true"], env={}, cwd=tmp_path / "nowhere", stdin=b"", started=nothing, sleep=system_sleep)


async def test_a_stale_group_is_ended_only_if_it_is_ours():
    process = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    assert not await end_stale_group(process.pid, start_ticks(process.pid) + 1, "run_x", system_sleep)
    assert process.returncode is None
    assert await end_stale_group(process.pid, start_ticks(process.pid), "run_x", system_sleep)
    assert await process.wait() == -signal.SIGTERM


async def test_a_stale_group_without_its_leader_is_known_by_the_run_in_its_environment(tmp_path):
    note = tmp_path / "child"
    leader = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        f"sleep 300 & echo $! > {note}",
        start_new_session=True,
        env={"HERMES_CRON_RUN": "run_x", **os.environ},
    )
    await leader.wait()
    child = int(note.read_text())
    assert not await end_stale_group(leader.pid, 1, "run_y", system_sleep)
    assert await end_stale_group(leader.pid, 1, "run_x", system_sleep)
    await gone(child)


async def gone(pid: int) -> None:
    """Return when a process has ended; a signal takes a moment to arrive."""
    async with asyncio.timeout(10):
        while not is_gone(pid):
            await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True
