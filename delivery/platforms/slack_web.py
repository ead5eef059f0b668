"""Reads how an HTTP request to Slack ended, without the SDK: answers that are no `ok: true`, and broken connections."""

from collections.abc import Mapping
from typing import Any

import aiohttp

from delivery.platforms.slack_calls import TOO_OFTEN, CallResult, Limited, Refused, Unclear

DEFAULT_WAIT = 30.0
"""Seconds to wait after a 429 that does not say how long."""


class Progress:
    """How far a request got: whether a byte of it may have left."""

    def __init__(self) -> None:
        self.has_begun = False

    def trace(self) -> aiohttp.TraceConfig:
        """Return what tells aiohttp to keep this up to date."""

        async def begun(*_: object) -> None:
            self.has_begun = True

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(begun)  # told just before they are written
        return trace


def form(args: Mapping[str, object]) -> dict[str, str]:
    """Return arguments as a form takes them, which every method understands."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in args.items()}


def refusal(response: Any) -> CallResult:
    """Judge an answer that is no `ok: true`: the SDK's response, or aiohttp's where the body was no JSON."""
    status: int = response.status_code if hasattr(response, "status_code") else response.status
    data = getattr(response, "data", None)
    data = data if isinstance(data, dict) else {}
    code = data.get("error")
    if status == 429 or code in TOO_OFTEN:
        return Limited(retry_after=_wait(response.headers))
    if status < 500 and data.get("ok") is False and isinstance(code, str) and code:
        needed = data.get("needed")
        return Refused(code=code, needed=needed if isinstance(needed, str) else None)
    if status >= 500:
        return Unclear(reason=f"Slack is in trouble (HTTP {status})")
    return Unclear(reason=f"the answer is not Slack's (HTTP {status}): is there a proxy in between?")


def scopes(headers: Mapping[str, str]) -> frozenset[str] | None:
    """Return the token's scopes, None if the answer does not name them."""
    text = _header(headers, "x-oauth-scopes")
    return None if text is None else frozenset(one.strip() for one in text.split(",") if one.strip())


def told(error: Exception, timeout: float) -> str:
    """Say what broke a connection, without addresses that hold secrets."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host} cannot be found: is there a network?"
        case aiohttp.ClientSSLError():
            return f"no trusted connection to {error.host}: its certificate is not accepted"
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}: {error.strerror or 'refused'}"
        case TimeoutError():
            return f"no answer within {timeout:g} seconds"
    return f"the connection to Slack broke ({type(error).__name__})"


def _wait(headers: Mapping[str, str]) -> float:
    text = _header(headers, "retry-after") or ""
    return float(text) if text.isascii() and text.isdecimal() else DEFAULT_WAIT


def _header(headers: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in headers.items() if key.lower() == name), None)
