"""Who may ask the page: pure rules on a request's headers.

On loopback whoever is on this machine may ask, and the danger is a web page that some browser here shows: it can send
requests to 127.0.0.1 by itself. So the Host header must be a name of this machine (else a foreign name was made to
point here), and what changes something must come from our own pages or from no page at all.
"""

import hmac
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::\d{1,5})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of one server. `token` None: it listens on loopback only, and nobody needs one.

    `names` are host names of this machine, in small letters, that may stand in the Host header beside loopback
    names; with a token every IP address may, too: a foreign name cannot be an address.
    """

    port: int
    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()

    @property
    def cookie(self) -> str:
        """Name the cookie that holds the token; cookies do not tell ports apart, so its name does."""
        return f"hermes_cron_{self.port}"

    def is_our_host(self, headers: Headers) -> bool:
        """Tell whether the Host header names this machine."""
        match = _HOST.fullmatch(headers.get("host", ""))
        if match is None:
            return False
        name = (match["six"] or match["name"]).rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost") or name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.token is not None

    def is_from_another_site(self, method: str, headers: Headers) -> bool:
        """Tell whether another site's page sent this request by itself; a link that leads here is welcome."""
        site = headers.get("sec-fetch-site")
        if site is not None:
            is_link = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
            return site not in ("same-origin", "none") and not is_link
        origin = headers.get("origin")
        if origin is None or method in _SAFE_METHODS:
            return False
        return urlsplit(origin).netloc.lower() != headers.get("host", "").lower()

    def is_admitted(self, headers: Headers) -> bool:
        """Tell whether the request carries the token, in its cookie or as `Authorization: Bearer`, where it must."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return self.is_token(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""))

    def is_token(self, given: str) -> bool:
        """Compare in constant time."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())


def names_of_this_machine(host: str) -> frozenset[str]:
    """Return the names by which people may call a server that was bound to `host`."""
    own = socket.gethostname().lower().rstrip(".")
    return frozenset({host.lower().rstrip("."), own, own.partition(".")[0], f"{own.partition('.')[0]}.local"})
