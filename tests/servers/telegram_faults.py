"""Ways in which a call to the Telegram test server can go wrong."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from servers.telegram_model import Json


class FaultKind(Enum):
    """What happens to a call. STORED kinds carry it out first; the others never do."""

    CUT_BEFORE = "cut_before"
    CUT_AFTER = "cut_after"
    SLOW = "slow"
    HOLD = "hold"
    HOLD_BEFORE = "hold_before"
    TOO_MANY = "429"
    ERROR_500 = "500"
    HTML_502 = "502"
    ERROR = "error"
    ZERO_ID = "zero_id"
    LOSE_THREAD = "lose_thread"
    NOT_JSON = "not_json"
    CLOSE = "close"


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault, armed for `times` matching calls after `skip` of them; `chat_id` None matches every chat.

    slow: the call is carried out at once, its answer comes `seconds` later. hold, hold_before: the answer (or the
    carrying out) waits for `release()`. zero_id: the answer says message_id 0. lose_thread: message_thread_id is
    ignored. close: answers, then closes the connection without saying so.
    """

    kind: FaultKind
    method: str
    times: int = 1
    skip: int = 0
    chat_id: int | None = None
    seconds: float = 0
    retry_after: int = 1
    code: int = 400
    description: str = "Bad Request"
    parameters: Json | None = None
    hits: int = 0
    _gate: asyncio.Event = field(default_factory=asyncio.Event)

    def matches(self, method: str, chat_id: int | None) -> bool:
        """Return whether it strikes this call, and count it."""
        if self.method not in ("*", method) or self.chat_id not in (None, chat_id) or self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        self.hits += 1
        return True

    def release(self) -> None:
        """Let the calls go on that are held, and later ones pass."""
        self.times = 0 if self.kind in (FaultKind.HOLD, FaultKind.HOLD_BEFORE) else self.times
        self._gate.set()

    async def wait(self) -> None:
        """Wait as long as this fault keeps a call waiting."""
        if self.kind is FaultKind.SLOW:
            await asyncio.sleep(self.seconds)
        elif self.kind in (FaultKind.HOLD, FaultKind.HOLD_BEFORE):
            await self._gate.wait()


HTML_502 = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n"
)


def too_many(retry_after: int) -> Json:
    """Return the platform's 429 body."""
    return {
        "ok": False,
        "error_code": 429,
        "description": f"Too Many Requests: retry after {retry_after}",
        "parameters": {"retry_after": retry_after},
    }


class Limits:
    """The platform's send rates: one a second per chat, 20 a minute per group, 30 a second in all."""

    def __init__(self) -> None:
        self._sends: list[tuple[float, int]] = []

    def retry_after(self, chat_id: int, at: float) -> int:
        """Count a send at `at` (monotonic seconds) and return 0, or the seconds to wait if it is one too many."""
        self._sends = [send for send in self._sends if at - send[0] < 60]
        for window, most, sends in (
            (1.0, 1, [t for t, chat in self._sends if chat == chat_id]),
            (60.0, 20, [t for t, chat in self._sends if chat == chat_id and chat_id < 0]),
            (1.0, 30, [t for t, _ in self._sends]),
        ):
            recent = [t for t in sends if at - t < window]
            if len(recent) >= most:
                return max(1, round(window - (at - recent[-most]) + 0.499))
        self._sends.append((at, chat_id))
        return 0
