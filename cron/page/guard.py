"""Stands before every route: who may ask, what every answer carries, and what an unexpected error looks like."""

import html
import logging
from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cron.page.access import Access

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_CARRIED = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would make browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

INSIDE = "This went wrong inside hermes-cron; its log says why."

log = logging.getLogger(__name__)


def wants_json(path: str) -> bool:
    """Tell whether a path is for programs."""
    return path.startswith("/api/") or path == "/healthz"


class Guard:
    """The outermost ASGI layer. `is_healthy` answers /healthz for those who show no token: a yes or a no."""

    def __init__(self, app: ASGIApp, access: Access, *, is_healthy: Callable[[], bool]) -> None:
        self._app = app
        self._access = access
        self._is_healthy = is_healthy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        has_begun = False

        async def carry(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _CARRIED.items():
                    headers.setdefault(name, value)
            await send(message)

        app = self._refusal(scope) or self._app
        try:
            await app(scope, receive, carry)
        except ClientDisconnect:
            return
        except Exception:  # around one request: it gets its sentence, the log gets the rest
            log.exception("A request failed.", extra={"action": "request_failed", "path": scope["path"]})
            if not has_begun:
                await _told(scope["path"], 500, INSIDE)(scope, receive, carry)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that must not go on; None lets it pass."""
        access, headers, path = self._access, Headers(scope=scope), scope["path"]
        if not access.is_our_host(headers):
            return _told(path, 421, "This server is not called that; open it by localhost or by its address.")
        if access.is_from_another_site(scope["method"], headers):
            return _told(path, 403, "Another site's page sent this request; open hermes-cron's own page instead.")
        if access.is_admitted(headers):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and not wants_json(path) and access.is_token(query.pop("token", [""])[0]):
            return self._signed_in(path, urlencode(query, doseq=True))
        if path == "/healthz":
            is_well = self._is_healthy()
            return JSONResponse({"status": "ok" if is_well else "failing"}, status_code=200 if is_well else 503)
        refused = _told(
            path,
            401,
            "This page needs its token: open the address with ?token=... that the daemon printed when it started,"
            " or send the token as `Authorization: Bearer`; it stands in the file page-token in the home.",
        )
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    def _signed_in(self, path: str, query: str) -> Response:
        """Keep the token in a cookie and go on without it in the address.

        By a page that refreshes itself, not a redirect: when a link elsewhere led here, browsers would not send a
        strict cookie along with the redirect.
        """
        onward = html.escape("/" + quote(path.lstrip("/")) + (f"?{query}" if query else ""))
        response = HTMLResponse(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={onward}">'
            f'<title>hermes-cron</title><p><a href="{onward}">Go on</a></p>'
        )
        token = self._access.token
        assert token is not None, "only a server with a token signs anybody in"
        response.set_cookie(self._access.cookie, token, max_age=31_536_000, path="/", httponly=True, samesite="strict")
        return response


def _told(path: str, status: int, sentence: str) -> Response:
    if wants_json(path):
        return JSONResponse({"error": sentence}, status_code=status)
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>hermes-cron</title><p>{html.escape(sentence)}</p></html>",
        status_code=status,
    )
