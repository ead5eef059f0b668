"""The daemon as people run it: a process of its own, driven by the command line and by what the platforms send."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

PATIENCE = 30.0


class Process:
    """One home with its jobs.yaml; the daemon can be started, stopped, killed and started again."""

    def __init__(self, folder: Path, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._environ = os.environ | {"HERMES_CRON_HOME": str(self.home), "TZ": "UTC"} | (environ or {})
        self._daemon: asyncio.subprocess.Process | None = None
        self._starts_before = 0

    def write(self, text: str) -> None:
        (self.folder / "jobs.yaml").write_text(textwrap.dedent(text), encoding="utf-8")

    async def start(self) -> None:
        self._starts_before = self.log().count("action=ready")
        with (self.folder / "daemon.log").open("ab") as log:
            self._daemon = await asyncio.create_subprocess_exec(
                *_COMMAND, "run", "--port", "0", cwd=self.folder, env=self._environ, stderr=log
            )
        await until(lambda: self._daemon.returncode is not None or self._is_ready(), "the daemon to be ready", self)
        assert self._daemon.returncode is None, self.log()

    async def stop(self) -> int:
        assert self._daemon is not None
        if self._daemon.returncode is None:
            self._daemon.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._daemon.wait(), 45)

    async def kill(self) -> None:
        assert self._daemon is not None
        self._daemon.kill()
        await self._daemon.wait()

    async def restart(self) -> None:
        assert await self.stop() == 0, self.log()
        await self.start()

    async def cli(self, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
        """Run one command; return its exit code, stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            *arguments,
            cwd=self.folder,
            env=self._environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate((stdin or "").encode()), 60)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def json(self, *arguments: str) -> Any:
        """Run a command with --json and return what it printed."""
        code, out, err = await self.cli(*arguments, "--json")
        assert out, f"exit {code}: {err}"
        return json.loads(out)

    async def run_of(self, job: str) -> dict[str, Any]:
        """Wait for the newest run of a job that has ended."""

        async def ended() -> dict[str, Any] | None:
            rows = await self.json("runs", "--job", job)
            return rows[0] if rows and rows[0]["outcome"] else None

        return await until(ended, f"an outcome of {job}", self, every=0.3)

    async def transcript(self, session: str) -> list[dict[str, Any]]:
        return await self.json("transcript", session)

    def log(self) -> str:
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _is_ready(self) -> bool:
        return self.log().count("action=ready") > self._starts_before and (self.home / "daemon.json").exists()


_COMMAND = (sys.executable, "-c", "from cron.cli.main import main; main()")


async def until(look: Callable[[], Any], what: str, process: Process | None = None, *, every: float = 0.05) -> Any:
    """Look again and again until there is something to see; fail with what was waited for, and the daemon's log."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while True:
        found = look()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        if loop.time() > deadline:
            raise AssertionError(f"waited in vain for {what}\n{process.log() if process else ''}")
        await asyncio.sleep(every)


@asynccontextmanager
async def process(folder: Path, text: str, *, environ: dict[str, str] | None = None) -> AsyncIterator[Process]:
    """Start a daemon on a jobs.yaml; stop it at the end."""
    made = Process(folder, environ)
    made.write(text)
    await made.start()
    try:
        yield made
    finally:
        try:
            code = await made.stop()
        except TimeoutError:
            await made.kill()
            raise
        assert code == 0, made.log()
