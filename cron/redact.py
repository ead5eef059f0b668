"""Keep secrets out of everything that is shown: briefs, mirrors, logs, errors, pages."""

import base64
import html
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

REPLACEMENT: Final = "[secret]"
SHORTEST: Final = 4
"""A shorter value is a word like any other; replacing it would only garble texts."""

_SHORTEST_ENCODED: Final = 8
_SHORTEST_LINE: Final = 20

_SHAPES: Final = (
    r"(?<![A-Za-z0-9])xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}",  # Slack bot, user and refresh tokens
    r"(?<![A-Za-z0-9])xapp-[A-Za-z0-9-]{10,}",  # Slack app-level token
    r"(?<![A-Za-z0-9])\d{6,12}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",  # Telegram bot token
    r"(?<=/bot)\d{6,12}:[A-Za-z0-9_-]{20,}",  # the same, inside a Bot API address
    r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}",  # OpenAI and look-alikes
    r"(?<![A-Za-z0-9])gh[opsur]_[A-Za-z0-9]{20,}",  # GitHub
    r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}",
    r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}",  # GitLab
    r"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS key id
    r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}",  # Google
    r"(?<![A-Za-z0-9])GOCSPX-[A-Za-z0-9_-]{20,}",
    r"(?<=hooks\.slack\.com/services/)[A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]+",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
)


class Redactor:
    """Replaces secret values and well-known token shapes by `[secret]`. Immutable; texts of any size.

    A value is found as it is, and as it looks inside a URL, JSON, HTML or base64. Longer values win over
    shorter ones that they contain.
    """

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join([*map(re.escape, ordered), *_SHAPES]))

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        return self._pattern.sub(REPLACEMENT, text)

    def redact_value(self, value: object) -> object:
        """Return a JSON-like value (mappings, lists, tuples, texts) without secrets, keys included."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact_value(key): self.redact_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact_value(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self.redact_value(item) for item in value)
        return value


def shortened(text: str, most: int = 400) -> str:
    """Cut a sentence that was redacted already. Never the other way round: half a secret is not known as one."""
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def _forms(secret: str) -> Iterator[str]:
    if len(secret.strip()) < SHORTEST:
        return
    yield secret
    yield secret.strip()
    if len(secret) < _SHORTEST_ENCODED:
        return
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), encoded)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield html.escape(secret)
    yield repr(secret)[1:-1]
    yield from _base64_forms(secret.encode())
    yield from (line.strip() for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE)


def _base64_forms(secret: bytes) -> Iterator[str]:
    """Yield how the value looks in base64 at each of the three offsets (`user:secret` shifts it)."""
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(b"\0" * shift + secret).rstrip(b"=").decode()
            inner = encoded[(0, 2, 3)[shift] :]  # what the bytes before the value do not touch
            if (shift + len(secret)) % 3:
                inner = inner[:-1]  # nor the bytes after it
            if len(inner) >= _SHORTEST_ENCODED:
                yield inner


_PLAIN_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class RedactingFilter(logging.Filter):
    """Takes secrets out of log records: the sentence, its arguments, `extra` fields, tracebacks.

    Add it to handlers (a logger's filter does not see its children's records). `use` changes the redactor
    when the configuration is read again.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def use(self, redactor: Redactor) -> None:
        """Redact with another set of secrets from now on."""
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record in place; every record passes."""
        redactor = self._redactor
        record.msg = redactor.redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redactor.redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redactor.redact(record.stack_info)
        for name in vars(record).keys() - _PLAIN_RECORD:
            setattr(record, name, redactor.redact_value(getattr(record, name)))
        return True
