"""One model at one OpenAI-compatible endpoint: the only file that knows the openai SDK.

Importing the SDK takes half a second, so it happens in a thread, before the first request. Its retries are off:
what may be tried again is said by `Refused`, and decided by the caller.
Source: https://platform.openai.com/docs/api-reference/chat/create
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI = "https://api.openai.com/v1"
CONNECT_LIMIT = 20.0  # seconds
STALL_LIMIT = 90.0  # seconds between two pieces of an answer that has begun
REASON_LENGTH = 2_000  # characters of what a server said; it is shortened where its secrets are taken out

_TRY_LATER = frozenset({408, 409, 425, 429})
_NEVER_PAID = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_TOO_LONG = re.compile(
    r"context.?(length|size|window)|maximum context|too many (input )?tokens|prompt is too long", re.I
)
_NOT_KNOWN = re.compile(
    r"stream_options|include_usage|extra (inputs|fields)|unrecogni[sz]ed|unsupported|not (supported|permitted|allowed)"
    r"|unknown (field|parameter|argument|option)|unexpected (field|keyword)|additional properties",
    re.I,
)


class Refused(Exception):
    """No answer came out. `reason` is one sentence, as the server said it: it may hold secrets.

    `is_transient`: the same request may succeed later, not before `retry_after` seconds. `is_too_long`: a
    shorter one may succeed now.
    """

    def __init__(
        self, reason: str, *, is_transient: bool, retry_after: float | None = None, is_too_long: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_transient = is_transient
        self.retry_after = retry_after
        self.is_too_long = is_too_long


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model answered, and what it cost. `finish` is the server's word: `stop`, `length`, `content_filter`."""

    text: str
    finish: str
    tokens_in: int | None = None
    tokens_out: int | None = None


class Endpoint:
    """Asks one model. May be asked several things at once; time limits are the caller's: it cancels."""

    def __init__(
        self, *, model: str, base_url: str | None, api_key: str | None, stall_limit: float = STALL_LIMIT
    ) -> None:
        self._model = model
        self._base_url = base_url or OPENAI
        self._api_key = api_key or "none"  # local servers want no key, but the SDK insists on one
        self._stall_limit = stall_limit
        self._client: AsyncOpenAI | None = None
        self._connecting = asyncio.Lock()
        self._asking = 0
        self._is_closed = False
        self._counts_tokens = True  # until the server says that it does not know how

    async def ask(self, messages: Sequence[Mapping[str, str]]) -> Said:
        """Ask once and return the whole answer, which may be empty. Raises Refused."""
        self._asking += 1
        try:
            client = await self._connected()
            try:
                return await self._stream(client, messages)
            except _UsageUnknown:
                self._counts_tokens = False
                return await self._stream(client, messages)
        finally:
            self._asking -= 1
            if self._is_closed:
                await self._hang_up()

    async def close(self) -> None:
        """Close the connections, with the last answer that is under way. Idempotent."""
        self._is_closed = True
        await self._hang_up()

    async def _hang_up(self) -> None:
        if self._client is not None and not self._asking:
            client, self._client = self._client, None
            await client.close()

    async def _connected(self) -> "AsyncOpenAI":
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(_client, self._base_url, self._api_key)
            return self._client

    async def _stream(self, client: Any, messages: Sequence[Mapping[str, str]]) -> Said:
        import openai

        usage = {"stream_options": {"include_usage": True}} if self._counts_tokens else {}
        answer = _Answer()
        try:
            stream = await client.chat.completions.create(
                model=self._model, messages=list(messages), stream=True, **usage
            )
            async with stream:
                await self._read(aiter(stream), answer)
        except openai.APIStatusError as error:
            refused = _refusal(error, self._base_url)
            is_bad = error.status_code in (400, 422) and not refused.is_too_long
            if usage and is_bad and _NOT_KNOWN.search(refused.reason):
                raise _UsageUnknown from error
            raise refused from error
        except (openai.APIError, OSError, ValueError) as error:  # ValueError: it is no JSON, or no text
            if answer.finish is None:
                raise self._failure(error, answer) from error
        return self._whole(answer)

    async def _read(self, chunks: Any, answer: "_Answer") -> None:
        while True:
            # Before the first word a model may think for long; after it, words come in a row.
            async with asyncio.timeout(self._stall_limit if answer.pieces else None):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            answer.take(chunk)

    def _whole(self, answer: "_Answer") -> Said:
        if answer.finish is None and not answer.has_begun:
            reason = f"{self._base_url} sent no answer of a model; is that the base_url of an OpenAI-compatible server?"
            raise Refused(reason, is_transient=False)
        if answer.finish is None:
            raise Refused("The model's answer broke off in the middle.", is_transient=True)
        return Said(
            text="".join(answer.pieces),
            finish=answer.finish,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
        )

    def _failure(self, error: Exception, answer: "_Answer") -> Refused:
        import openai

        if isinstance(error, openai.APIError) and not isinstance(error, openai.APIConnectionError):
            return _broken_off(error)
        if answer.has_begun:
            how = "stalled" if isinstance(error, TimeoutError) else "broke off"
            return Refused(f"The model's answer {how} in the middle.", is_transient=True)
        cause = _cause_of(error)
        is_wrong = type(cause).__name__ in ("UnsupportedProtocol", "InvalidURL", "LocalProtocolError")
        said = _short(str(cause)) or type(cause).__name__
        return Refused(f"The model at {self._base_url} cannot be reached: {said}.", is_transient=not is_wrong)


class _UsageUnknown(Exception):
    """The server refused `stream_options`, which older ones do not know."""


class _Answer:
    """What has come of an answer so far. Servers differ in what they leave out of a chunk."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.finish: str | None = None
        self.tokens_in: int | None = None
        self.tokens_out: int | None = None
        self.has_begun = False

    def take(self, chunk: Any) -> None:
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.tokens_in, self.tokens_out = usage.prompt_tokens, usage.completion_tokens
        for choice in getattr(chunk, "choices", None) or ():
            self.has_begun = True
            words = _words(getattr(choice.delta, "content", None))
            if words:
                self.pieces.append(words)
            self.finish = getattr(choice, "finish_reason", None) or self.finish


def _words(content: object) -> str:
    """Return the text of a delta: a string, or (some servers) a list of typed parts of which `text` counts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))


def _client(base_url: str, api_key: str) -> "AsyncOpenAI":
    """Import the SDK and make a client. Slow: not for the event loop."""
    import openai.resources.chat.completions

    # How long an answer may take is the caller's business; that a server takes the call at all is ours.
    timeout = openai.Timeout(None, connect=CONNECT_LIMIT)
    client = openai.AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, timeout=timeout)
    _ = client.chat.completions  # made at the first look at it, with imports of its own
    return client


def _refusal(error: Any, base_url: str) -> Refused:
    said, code = _said(error)
    status = int(error.status_code)
    if status in (404, 405) and not isinstance(error.body, dict):
        said = f"nothing is there; is {base_url} right? It mostly ends in /v1"
    is_unpaid = code in _NEVER_PAID
    return Refused(
        f"The model's server answered {status}: {said}",
        is_transient=not is_unpaid and (status in _TRY_LATER or status >= 500),
        retry_after=_retry_after(error.response.headers),
        is_too_long=status in (400, 413, 422) and bool(code == "context_length_exceeded" or _TOO_LONG.search(said)),
    )


def _broken_off(error: Any) -> Refused:
    said, code = _said(error)
    is_too_long = code == "context_length_exceeded" or bool(_TOO_LONG.search(said))
    reason = f"The model's server broke off: {said}"
    return Refused(reason, is_transient=not is_too_long and code not in _NEVER_PAID, is_too_long=is_too_long)


def _said(error: Any) -> tuple[str, str | None]:
    """Return what the server said, in one line, and its code."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body["error"] if isinstance(body.get("error"), dict) else body
    message = next((inner[name] for name in ("message", "error", "detail") if inner.get(name)), None)
    text = message if isinstance(message, str) else json.dumps(message) if message is not None else ""
    code = inner.get("code") or inner.get("type")
    return _short(text or str(error.message)) or "nothing", None if code is None else str(code)


def _short(text: str) -> str:
    """Return the first REASON_LENGTH characters as one line, without a page's markup."""
    plain = " ".join(re.sub(r"<[^<>]{1,200}>", " ", text).split())
    return plain[:REASON_LENGTH].rstrip(" .")


def _cause_of(error: BaseException) -> BaseException:
    """Return the innermost error that has something to say."""
    found, cause = error, error.__cause__
    while cause is not None:
        found, cause = (cause if str(cause) else found), cause.__cause__
    return found


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait. A date is seen from the server's own clock, which it sends along."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < 1e9:
            return seconds
    try:
        wait = parsedate_to_datetime(headers.get("retry-after", "")) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())
