"""The one seam between Telegram's SDK and the network: it knows whether any of a request was written."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import httpx

from delivery.platforms.telegram_answers import Failure, Unclear, Unreachable, has_result, read_failure

CONNECT_TIMEOUT, WRITE_TIMEOUT = 5.0, 10.0


class Wire:
    """Connections to one server. With `keeps_open` False each request gets a fresh one.

    One that was kept open may be dead by now, and whatever is written into it is then in doubt.
    """

    def __init__(self, *, token: str, keeps_open: bool) -> None:
        self._limits = httpx.Limits() if keeps_open else httpx.Limits(max_keepalive_connections=0)
        self._http: httpx.AsyncClient | None = None
        self._is_closed = False
        self._opening = asyncio.Lock()
        self._quiet = _WithoutToken(token)

    async def request(
        self, method: str, url: str, *, agent: str, data: Mapping[str, str] | None, read_timeout: float
    ) -> tuple[int, bytes] | Failure:
        """Make one attempt; return the status and the body of a success, or how it failed. Raises nothing."""
        http = await self._opened()
        if http is None:
            return Unreachable(reason="the account is closed")
        trail = _Trail(method)
        try:
            answer = await http.request(
                method,
                url,
                headers={"User-Agent": agent},
                data=data,
                timeout=httpx.Timeout(connect=CONNECT_TIMEOUT, write=WRITE_TIMEOUT, read=read_timeout, pool=None),
                extensions={"trace": trail},
            )
        except Exception as error:  # noqa: BLE001 - whatever it was: only the phase decides what may be done next
            words = f"{type(error).__name__}: {error}" if isinstance(error, httpx.HTTPError) else type(error).__name__
            words = words.removesuffix(": ")
            if trail.has_written:
                return Unclear(reason=f"no answer after the request was written ({words})")
            return Unreachable(reason=words)
        if not answer.is_success:
            return read_failure(answer.status_code, answer.content)
        if not has_result(answer.content):
            return Unclear(reason="the server's answer is not Telegram's")
        return answer.status_code, answer.content

    async def _opened(self) -> httpx.AsyncClient | None:
        """Return the open connections; None once they were closed."""
        async with self._opening:
            if self._http is None and not self._is_closed:
                certificates = await asyncio.to_thread(httpx.create_ssl_context)  # takes a tenth of a second
                self._http = httpx.AsyncClient(limits=self._limits, verify=certificates)
                logging.getLogger("httpx").addFilter(self._quiet)
            return self._http

    async def close(self) -> None:
        """Close every socket, for good. Idempotent."""
        async with self._opening:
            self._is_closed = True
            http, self._http = self._http, None
        if http is not None:
            logging.getLogger("httpx").removeFilter(self._quiet)
            await http.aclose()


class _Trail:
    """Follows one request through the HTTP library: has the first byte of it been written?

    Of a proxy's CONNECT, which comes before, nothing reaches the platform.
    https://www.encode.io/httpcore/extensions/#trace
    """

    def __init__(self, method: str) -> None:
        self.has_written = False
        self._method = method.encode()

    async def __call__(self, name: str, info: Mapping[str, Any]) -> None:
        if name.endswith("send_request_headers.started") and info["request"].method == self._method:
            self.has_written = True


class _WithoutToken(logging.Filter):
    """Keeps the HTTP library from logging addresses that hold the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        return self._token not in record.getMessage()
