"""A wired daemon on a temporary home, its page on a loopback port, and a client that talks to it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from daemonbed import Running, daemon, until

from cron.page.server import PageServer, listening_socket

JOBS = """
    timezone: Europe/Berlin
    jobs:
      disk:
        schedule: "0 8 * * *"
        timezone: Asia/Kolkata
        text: "**Disk** is 93 % full on db-3"
      quiet:
        schedule: "@yearly"
        text: "[SILENT]"
      threads:
        schedule: "@yearly"
        text: "Backup of db-7 took 41 minutes"
        deliver: "local:#ops"
        surface: thread
      off:
        schedule: "@daily"
        text: "never"
        enabled: false
"""


@dataclass
class Site:
    """A living daemon with its page."""

    running: Running
    server: PageServer
    http: httpx.AsyncClient
    port: int

    async def run(self, job: str) -> dict[str, Any]:
        """Run a job now, by the interface of the command line; return its row when it has ended."""
        started = (await self.http.post("/api/do/trigger", json={"arguments": {"job": job}})).json()
        ended = await self.http.post("/api/do/wait", json={"arguments": {"run": started["ok"]["run"]}})
        return ended.json()["ok"]

    async def messages(self, channel: str = "general") -> list[dict[str, Any]]:
        return (await self.http.get("/api/local/messages", params={"channel": channel})).json()


Open = Callable[..., AbstractAsyncContextManager[Site]]


@asynccontextmanager
async def site_of(
    folder: Path,
    jobs: str = JOBS,
    *,
    has_page: bool = True,
    token: str | None = None,
    environ: dict[str, str] | None = None,
    **more: Any,
):
    with listening_socket(0) as sock:
        port = sock.getsockname()[1]
        async with daemon(folder, jobs, environ=environ) as running:
            server = PageServer(running.wired, sock, has_page=has_page, stop=running.stop_event, token=token, **more)
            base = f"http://127.0.0.1:{port}"
            async with server, httpx.AsyncClient(base_url=base, timeout=30, trust_env=False) as http:
                # A run can be asked for once the planner knows the jobs.
                await until(lambda: running.wired.control.planner.planned, "the jobs to be planned")
                yield Site(running=running, server=server, http=http, port=port)
                await running.stop()


@pytest.fixture
def open_site(tmp_path: Path) -> Open:
    """Open a site on jobs of the test's own."""

    def opened(jobs: str = JOBS, **more: Any) -> AbstractAsyncContextManager[Site]:
        return site_of(tmp_path, jobs, **more)

    return opened


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site_of(tmp_path) as opened:
        yield opened
