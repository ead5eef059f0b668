"""Ways in which a chat completion can go wrong."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from aiohttp import web

Json = dict[str, Any]


class Refusal(Exception):
    """An error in the shape of the OpenAI API."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.headers = headers or {}

    @classmethod
    def bad(cls, message: str, *, param: str | None = None) -> Self:
        """Return a 400."""
        return cls(400, message, param=param)

    @classmethod
    def unknown_model(cls, model: str) -> Self:
        """Return the 404 for a model that does not exist."""
        words = f"The model `{model}` does not exist or you do not have access to it."
        return cls(404, words, code="model_not_found")

    @classmethod
    def wrong_key(cls, key: str) -> Self:
        """Return the 401 for a missing or wrong key; it shows as little of the key as the real one."""
        words = f"Incorrect API key provided: {key[:2]}***." if key else "You didn't provide an API key."
        return cls(401, words, code="invalid_api_key")

    def wire(self) -> Json:
        """Return the response body."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class Cut(Exception):
    """The connection was cut by a fault; there is nobody left to answer."""


class ChatFaultKind(Enum):
    """What happens to a completion. MID, STALL and STREAM_ERROR strike after half of a streamed answer."""

    TOO_MANY = "429"
    QUOTA = "quota"
    ERROR_500 = "500"
    UNAVAILABLE = "503"
    NO_MODEL = "404"
    CONTEXT = "context"
    ERROR = "error"
    CUT = "cut"
    CUT_MID = "cut_mid"
    STALL = "stall"
    SLOW = "slow"
    HOLD = "hold"
    EMPTY = "empty"
    NO_CHOICES = "no_choices"
    STREAM_ERROR = "stream_error"


@dataclass(slots=True, kw_only=True)
class ChatFault:
    """One fault, armed for `times` completions after `skip` of them.

    slow: the answer begins `seconds` late. hold: it begins at `release()`. stall: it stops halfway and goes on at
    `release()`. quota: the 429 that no waiting cures.
    """

    kind: ChatFaultKind
    times: int = 1
    skip: int = 0
    seconds: float = 0
    retry_after: float | None = None
    code: int = 400
    message: str = "Bad request"
    hits: int = 0
    _gate: asyncio.Event = field(default_factory=asyncio.Event)

    def strikes(self) -> bool:
        """Return whether it strikes this completion, and count it."""
        if self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        self.hits += 1
        return True

    def release(self) -> None:
        """Let go what is held or stalled, and later completions too."""
        self._gate.set()

    async def before(self, request: web.Request) -> None:
        """Do what happens before the answer. Raises Refusal where the fault is one."""
        if self.kind is ChatFaultKind.SLOW:
            await asyncio.sleep(self.seconds)
        elif self.kind is ChatFaultKind.HOLD:
            await self._gate.wait()
        elif self.kind is ChatFaultKind.CUT:
            _abort(request)
        refusal = self._refusal()
        if refusal is not None:
            raise refusal

    async def midway(self, request: web.Request) -> None:
        """Do what happens when half of the answer is out."""
        if self.kind is ChatFaultKind.STALL:
            await self._gate.wait()
        elif self.kind is ChatFaultKind.CUT_MID:
            _abort(request)

    def error_in_stream(self) -> Json | None:
        """Return the error event that replaces the rest of a stream, if that is the fault."""
        if self.kind is not ChatFaultKind.STREAM_ERROR:
            return None
        return Refusal(500, "The server had an error while processing your request.", type="server_error").wire()

    def _refusal(self) -> Refusal | None:
        wait = {} if self.retry_after is None else {"Retry-After": f"{self.retry_after:g}"}
        return {
            ChatFaultKind.TOO_MANY: Refusal(
                429, "Rate limit reached.", type="requests", code="rate_limit_exceeded", headers=wait
            ),
            ChatFaultKind.QUOTA: Refusal(
                429, "You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota"
            ),
            ChatFaultKind.ERROR_500: Refusal(500, "The server had an error.", type="server_error"),
            ChatFaultKind.UNAVAILABLE: Refusal(503, "The engine is overloaded.", type="server_error", headers=wait),
            ChatFaultKind.NO_MODEL: Refusal.unknown_model("this"),
            ChatFaultKind.CONTEXT: Refusal(
                400, "This model's maximum context length is exceeded.", code="context_length_exceeded"
            ),
            ChatFaultKind.ERROR: Refusal(self.code, self.message),
        }.get(self.kind)


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
    raise Cut
