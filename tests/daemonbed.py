"""A real daemon for tests: wired as in production on a home in a temporary folder, in the test's event loop."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cron import views
from cron.jobs import load_config
from cron.wiring import Wired, wired
from seeding.sessions import list_sessions

PATIENCE = 15.0


@dataclass
class Running:
    """A living daemon; `stop` ends it in order and returns the exit code."""

    wired: Wired
    stop_event: asyncio.Event
    task: asyncio.Task[int]

    async def stop(self) -> int:
        self.stop_event.set()
        return await asyncio.wait_for(self.task, 40)

    async def read(self, fn: Callable[..., Any]) -> Any:
        return await self.wired.db.read(fn)

    async def runs(self, job: str | None = None) -> list[dict[str, Any]]:
        return await self.read(lambda conn: views.list_runs(conn, job=job))

    async def run_of(self, job: str) -> dict[str, Any]:
        """Wait for the newest row of a job that has its outcome."""

        async def ended() -> dict[str, Any] | None:
            rows = await self.runs(job)
            return rows[0] if rows and rows[0]["outcome"] else None

        return await until(ended, f"an outcome of {job}")

    async def transcript(self, session: str) -> list[dict[str, Any]]:
        return await self.read(lambda conn: views.transcript(conn, session))

    async def sessions(self) -> list[Any]:
        return await self.read(list_sessions)

    async def local(self, channel: str = "general") -> list[Any]:
        from delivery.platforms.local import messages

        return await self.read(lambda conn: messages(conn, channel))

    async def say(self, text: str, channel: str = "general", thread: str | None = None, author: str = "kim") -> Any:
        return await self.wired.local.say(channel, text, author, thread)

    async def answer_to(self, text: str, channel: str = "general", thread: str | None = None) -> dict[str, Any]:
        """Say something on the local channel and wait for what the daemon answers."""
        said = await self.say(text, channel, thread)

        async def answered() -> dict[str, Any] | None:
            later = [one for one in await self.local(channel) if int(one["id"]) > int(said["id"])]
            return next((one for one in later if one["author"] != "kim" and one["job"] is None), None)

        return await until(answered, f"an answer to {text!r}")


async def until(look: Callable[[], Any], what: str) -> Any:
    """Look again and again until there is something to see; fail with what was waited for."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while True:
        found = look()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert loop.time() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


def write_config(folder: Path, text: str) -> Path:
    path = folder / "jobs.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


@asynccontextmanager
async def daemon(
    folder: Path, text: str | None = None, *, environ: dict[str, str] | None = None
) -> AsyncIterator[Running]:
    """Run a daemon on `folder`/jobs.yaml with its home in `folder`/home; stop it at the end if that was not done."""
    path = folder / "jobs.yaml" if text is None else write_config(folder, text)
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin"} | (environ or {})
    config = load_config(path, environ=env, host_zone="UTC")
    async with wired(config, home=folder / "home", environ=env, host_zone="UTC") as made:
        stop = asyncio.Event()
        running = Running(wired=made, stop_event=stop, task=asyncio.create_task(made.daemon.run(stop)))
        await asyncio.wait([running.task, asyncio.create_task(made.daemon.ready.wait())], return_when="FIRST_COMPLETED")
        try:
            yield running
        finally:
            await running.stop()
