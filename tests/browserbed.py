"""A real browser for tests: Debian's chromium, driven through chromedriver by the WebDriver protocol (plain JSON)."""

import asyncio
import base64
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 20.0
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's key of an element's reference


class Browser:
    """One window. Selectors are CSS."""

    def __init__(self, http: httpx.AsyncClient, session: str) -> None:
        self._http = http
        self._session = f"/session/{session}"

    async def open(self, url: str) -> None:
        await self._ask("POST", "/url", {"url": url})

    async def run(self, script: str, *arguments: Any) -> Any:
        """Run a function's body in the page and return its value."""
        return await self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    async def text(self, selector: str) -> str:
        """Return the visible text of all that match, one below the other."""
        script = "return [...document.querySelectorAll(arguments[0])].map(one => one.innerText).join('\\n')"
        return str(await self.run(script, selector))

    async def click(self, selector: str) -> None:
        """Click what matches; once more if the page showed itself anew between finding and clicking."""
        try:
            await self._ask("POST", f"/element/{await self._find(selector)}/click", {})
        except AssertionError as error:
            if "stale element" not in str(error):
                raise
            await self._ask("POST", f"/element/{await self._find(selector)}/click", {})

    async def type(self, selector: str, text: str) -> None:
        await self._ask("POST", f"/element/{await self._find(selector)}/value", {"text": text})

    async def is_wider_than_the_window(self) -> bool:
        script = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(await self.run(script))

    async def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(await self._ask("GET", "/screenshot", None)))

    async def console(self) -> list[str]:
        """Return what the page complained about since the last call: script errors, refused resources."""
        entries = await self._ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    async def until_text(self, selector: str, look: Callable[[str], bool]) -> str:
        """Wait until the text of what matches is as wanted; return it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while not look(text := await self.text(selector)):
            assert loop.time() < deadline, f"waited in vain; {selector} says {text!r}"
            await asyncio.sleep(0.05)
        return text

    async def _find(self, selector: str) -> str:
        found = await self._ask("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        response = await self._http.request(method, self._session + path, json=body)
        answer = response.json()["value"]
        assert response.status_code == 200, answer
        return answer


def missing() -> str | None:
    """Say what is not here; None if a browser can be had."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} cannot be found" if lacking else None


@asynccontextmanager
async def browser(*, width: int = 1000, height: int = 900) -> AsyncIterator[Browser]:
    """Open a window of that size in a fresh profile; skip the test where there is no browser, except on CI."""
    reason = missing()
    if reason is not None and os.environ.get("CI") == "true":
        pytest.fail(f"On CI nothing may be skipped: {reason}.")
    if reason is not None:
        pytest.skip(f"{reason}; on Debian, apt-get install chromium chromium-driver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = await asyncio.create_subprocess_exec(
            "chromedriver",
            "--port=0",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "HOME": profile, "TMPDIR": profile},
        )
        try:
            port = await asyncio.wait_for(_port_of(driver), PATIENCE)
            base = f"http://127.0.0.1:{port}"
            async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False) as http:
                session = await _begin(http, profile, width, height)
                try:
                    yield Browser(http, session)
                finally:
                    await http.delete(f"/session/{session}")
        finally:
            driver.terminate()
            await driver.wait()


async def _port_of(driver: asyncio.subprocess.Process) -> int:
    assert driver.stdout is not None
    async for line in driver.stdout:
        if match := re.search(rb"successfully on port (\d+)", line):
            return int(match[1])
    raise AssertionError("chromedriver ended before it listened")


async def _begin(http: httpx.AsyncClient, profile: str, width: int, height: int) -> str:
    options = {
        "args": [*FLAGS, f"--user-data-dir={profile}/chromium"],
        "mobileEmulation": {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1, "touch": width < 600}},
    }
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    response = await http.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
    answer = response.json()["value"]
    assert response.status_code == 200, answer
    return str(answer["sessionId"])
